import signal
import subprocess
import sys

import pytest

from gpudiag.agent.commands.fleet_screen import screen
from gpudiag.agent.commands.output import Screen
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.fleet.closer import Placed
from gpudiag.agent.fleet.losses import losses
from gpudiag.agent.fleet.model import Fault, JobState, NodeState
from gpudiag.agent.fleet.placing import placed
from gpudiag.agent.fleet.reading import Read, subject
from gpudiag.agent.fleet.view import Chosen, View, folded, part
from gpudiag.agent.history.transfer import Patience
from gpudiag.agent.rules.contract import subject as canonical
from tests.promdouble import double, failure
from tests.running import wait_for

AT = 1_767_225_600.0
XID = Fault("n1", "gpu-xid", "xid-79", "critical", 0.9, {"uuid": "GPU-1"})
HOT = Fault("n2", "thermal-throttle", "thermal-throttle", "warning", 0.8, {"uuid": "GPU-2"})
LLAMA = JobState("llama", {"n1": 8, "n2": 8}, step=1.0)
BERT = JobState("bert", {"n3": 8}, step=1.0)


def echo(node, job="llama", symptom="multi-gpu-underperforms"):
    return Fault(node, symptom, "comm-not-overlapped", "warning", 0.9, {"job": job})


def slow(rank="9", node="n2"):
    finding = Finding(
        symptom="straggler",
        subject=canonical(job="llama", rank=rank),
        cause="gpu-throttled",
        confidence=0.9,
        severity="warning",
        state="firing",
        since=AT,
        summary="Rank 9 is slower.",
        raised_at=AT,
    )
    return Placed(node, finding)


def whole(faults=(XID, HOT), **nodes):
    states = {f"n{n}": NodeState(f"n{n}", 8, 8, 0.9) for n in (1, 2, 3)} | nodes
    jobs = {"llama": LLAMA, "bert": BERT}
    read = Read(states, jobs, tuple(faults), {}, ())
    lost = tuple(losses(jobs.values(), faults))
    return View(AT, read, tuple(states.values()), tuple(faults), lost, (), ())


def text(view, limit=20):
    console = Screen(width=200, highlight=False)
    with console.capture() as shown:
        console.print(screen(view, "http://prometheus:9090", limit))
    return shown.get()


def test_echoes_of_a_rank_found_across_nodes_are_left_out():
    kept = folded([XID, echo("n1"), echo("n2"), echo("n2", symptom="straggler")], [slow()])
    assert [(f.node, f.symptom) for f in kept] == [("n1", "gpu-xid"), ("n2", "straggler")]


def test_slow_ranks_seen_by_their_own_nodes_explain_what_the_others_see():
    ranks = [echo("n1", symptom="straggler"), echo("n2", symptom="straggler")]
    assert folded([*ranks, echo("n1"), echo("n3")], []) == tuple(ranks)


def test_another_jobs_finding_is_no_echo():
    other = echo("n3", job="bert")
    assert other in folded([other], [slow()])


def test_nothing_is_left_out_where_no_rank_was_found():
    assert folded([echo("n1"), XID], []) == (XID, echo("n1"))


def test_a_job_is_shown_with_what_is_on_its_nodes():
    shown = part(whole([XID, HOT, echo("n1", job="bert")]), Chosen(job="llama"))
    assert [node.name for node in shown.nodes] == ["n1", "n2"]
    assert shown.faults == (XID, HOT)
    assert [loss.job for loss in shown.losses] == ["llama"]


def test_a_node_is_shown_with_its_jobs():
    shown = part(whole(), Chosen(node="n2"))
    assert shown.faults == (HOT,)
    assert [loss.job for loss in shown.losses] == ["llama"]


def test_what_is_less_severe_is_left_out():
    assert part(whole(), Chosen(severity="critical")).faults == (XID,)


@pytest.mark.parametrize(
    ("label", "pairs"),
    [
        ("job=llama,rank=3", {"job": "llama", "rank": "3"}),
        ("mountpoint=/data,old", {"mountpoint": "/data,old"}),
        ("", {}),
    ],
)
def test_a_subject_is_read_back_from_its_label(label, pairs):
    assert subject(label) == pairs


def test_labels_that_differ_between_a_nodes_gpus_are_not_the_nodes():
    rows = [("n1", {"rack": "r1", "gpu": "0", "node": "n1"}), ("n1", {"rack": "r1", "gpu": "1"})]
    assert placed(rows) == {"n1": {"rack": "r1"}}


def test_names_from_elsewhere_are_shown_as_they_are():
    strange = Fault("[red]n1", "gpu-xid", "\x1b[2Jxid", "critical", 0.9, {"uuid": "GPU-1"})
    shown = text(whole([strange]))
    assert "[red]n1" in shown
    assert "\x1b[2J" not in shown


def test_long_tables_end_and_say_so():
    assert "and 2 more: --limit shows them" in text(whole(), limit=1)


def test_a_node_that_lacks_a_gpu_and_one_without_its_agent_are_told():
    shown = text(whole(n1=NodeState("n1", 7, 8), n2=NodeState("n2", 8, 8, up=False)))
    assert "7/8" in shown
    assert "(1 missing)" in shown
    assert "no agent any more on 1 nodes: n2" in shown


def test_a_watch_outlives_a_server_that_refuses_and_ends_by_ctrl_c():
    program = [sys.executable, "-m", "gpudiag.agent", "fleet", "--watch", "--every", "1s"]
    with double(lambda _: failure(503, "busy")) as server:
        watching = subprocess.Popen(
            [*program, "--prometheus", server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        # More than one look asks, however often it tries.
        wait_for(lambda: len(server.asked) > 2 * Patience().tries)
        assert watching.poll() is None
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=120)
    assert watching.returncode == 130
