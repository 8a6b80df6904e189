"""One job over several nodes, every rank of which is a peer of every other."""

from random import Random

import pytest

from gpudiag.agent.fleet import ranks
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.agent.rules.contract import Diagnosis, Healthy, subject
from gpudiag.agent.window import Window
from gpudiag.probes import Sample, labels

PER_NODE = 4
STEP = 0.5


def judged(nodes, slow, *, more=(), seed=3, per_node=PER_NODE):
    """Verdicts over `nodes` nodes; `slow` gives the extra seconds a step of each slow rank."""
    random, samples = Random(seed), list(more)
    count = nodes * per_node
    for row in range(40):
        late = [slow.get(rank, 0.0) + random.uniform(0.0, 0.004) for rank in range(count)]
        for rank in range(count):
            who = labels(job="llama", rank=str(rank))
            wait = 0.02 + max(late) - late[rank]
            for name, value in (
                ("step", STEP),
                ("comm_wait", wait),
                ("compute", STEP - 0.02 - max(late) + late[rank]),
            ):
                samples.append(Sample(f"gpudiag_train_{name}_seconds", who, row * 15.0, value))
            info = labels(job="llama", rank=str(rank), uuid=f"GPU-{rank}", world_size=str(count))
            samples.append(Sample("gpudiag_train_info", info, row * 15.0, 1.0))
    where = {("llama", str(rank)): f"n{rank // per_node}" for rank in range(count)}
    rule = ranks.rule(where)
    window = Window(rule.reads | rule.trends, trends=rule.trends)
    window.now = 39 * 15.0
    window.add(sorted(samples, key=lambda s: s.time))
    return list(rule.check(window, default_limits(rule)))


def found(*args, **kwargs):
    return [v for v in judged(*args, **kwargs) if isinstance(v, Diagnosis)]


def clocks(count, slow):
    return [
        Sample(
            "gpudiag_gpu_clock_hertz",
            labels(uuid=f"GPU-{rank}", clock="sm"),
            row * 15.0,
            1.2e9 if rank in slow else 1.98e9,
        )
        for rank in range(count)
        for row in range(40)
    ]


def test_one_slow_rank_among_those_of_all_nodes_is_named():
    (verdict,) = found(3, {6: 0.1})
    assert verdict.subject == subject(job="llama", rank="6")
    assert "the 11 ranks beside it" in verdict.summary


def test_a_node_whose_ranks_are_all_slow_is_named_and_no_rank_of_it():
    (verdict,) = found(4, {4: 0.1, 5: 0.102, 6: 0.1, 7: 0.1})
    assert verdict.subject == subject(job="llama", node="n1")
    assert "4 ranks of llama on node n1" in verdict.summary
    assert "3 other nodes" in verdict.summary


def test_two_nodes_are_enough():
    (verdict,) = found(2, {4: 0.1, 5: 0.1, 6: 0.1, 7: 0.1})
    assert verdict.subject == subject(job="llama", node="n1")


def test_the_nodes_own_hardware_is_its_cause():
    slow = dict.fromkeys(range(4, 8), 0.1)
    (verdict,) = found(3, slow, more=clocks(12, set(slow)))
    assert verdict.cause == "gpu-throttled"
    assert "1.20 GHz" in verdict.summary


def test_clocks_that_are_alike_everywhere_explain_nothing():
    (verdict,) = found(3, dict.fromkeys(range(4, 8), 0.1), more=clocks(12, set()))
    assert verdict.cause == "slow-worker"


def test_one_rank_on_each_node_is_told_as_a_rank():
    (verdict,) = found(4, {2: 0.1}, per_node=1)
    assert verdict.subject == subject(job="llama", rank="2")


@pytest.mark.parametrize("seed", range(5))
def test_even_ranks_give_no_finding(seed):
    verdicts = judged(4, {}, seed=seed)
    assert not [v for v in verdicts if isinstance(v, Diagnosis)]
    assert Healthy(subject(job="llama", node="n3")) in verdicts


def test_two_slow_ranks_on_different_nodes_do_not_make_a_node_slow():
    assert not [v for v in found(4, {1: 0.1, 9: 0.1}) if dict(v.subject).get("node")]


def test_its_thresholds_are_those_of_the_rule_on_one_node():
    assert ranks.rule({}).thresholds == RULES["straggler"].thresholds
