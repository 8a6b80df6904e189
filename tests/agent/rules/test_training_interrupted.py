from gpudiag.agent.rules import RULES, default_limits
from gpudiag.agent.rules.contract import Diagnosis, Healthy, Unknown, subject
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample, labels

RULE = RULES["training-interrupted"]
STEPS = "gpudiag_train_steps_total"


def judge(counts, events=(), every=10.0, ranks=2):
    """What it says at the end of `counts`, the step counter of every rank."""
    window = Window(RULE.reads | RULE.trends, trends=RULE.trends)
    samples = [
        Sample(STEPS, labels(job="j", rank=str(rank)), row * every, float(count))
        for row, count in enumerate(counts)
        for rank in range(ranks)
    ]
    window.now = len(counts) * every
    window.add(samples, [event if isinstance(event, Event) else Event(*event) for event in events])
    return list(RULE.check(window, default_limits(RULE)))


def found(*args, **more):
    return next((v for v in judge(*args, **more) if isinstance(v, Diagnosis)), None)


GOING = range(0, 600, 10)


def test_a_job_that_steps_is_healthy():
    assert Healthy(subject(job="j")) in judge(GOING)


def test_an_exit_names_the_rank():
    verdict = found(GOING, [(595.0, "process", "exit pid=7 name=python rank=1 code=1")])
    assert (verdict.cause, verdict.subject) == ("process-crash", subject(job="j", rank="1"))


def test_an_exit_that_the_job_got_over_is_past():
    assert found(GOING, [(100.0, "process", "exit pid=7 name=python rank=1 code=1")]) is None


def test_a_servers_exit_is_not_trainings():
    line = "exit pid=7 name=VLLM::EngineCore rank=1 code=1"
    assert found(GOING, [(595.0, "process", line)]) is None


def test_a_timeout_before_the_first_step_is_a_start_that_failed():
    line = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALL)"
    assert found([0] * 60, [(590.0, "log:train", line)]) is None


def hook(time, kind, step):
    """What a process tells of its checkpoints, at its own count of steps."""
    return Event(time, "torch", "/out/checkpoint.pt", kind, {"job": "j", "step": str(step)})


def test_a_process_that_counts_its_own_steps_has_resumed_where_it_loaded():
    saved, counts = hook(250.0, "checkpoint_saved", 250), [*range(0, 300, 10), *range(0, 100, 10)]
    assert found(counts, [saved, hook(300.0, "checkpoint_loaded", 0)]) is None
    assert found(counts, [saved]).cause == "resume-not-effective"


def test_a_restart_that_lost_work_is_no_interruption_of_any_rank():
    verdicts = judge([*range(0, 300, 10), *range(0, 100, 10)])
    assert {v.subject for v in verdicts if isinstance(v, Healthy)} == {
        subject(job="j", rank="0"),
        subject(job="j", rank="1"),
    }


def test_silence_cannot_be_told_from_an_end():
    assert isinstance(judge([*GOING, *[float("nan")] * 2])[0], Unknown)


def test_a_fall_to_zero_without_a_checkpoint_loses_work():
    verdict = found([*range(0, 300, 10), *range(0, 100, 10)])
    assert verdict.cause == "resume-not-effective"
    assert verdict.missing
