import pytest

from gpudiag.agent.rules import RULES, default_limits
from gpudiag.agent.rules.contract import Diagnosis, Healthy, subject
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample, labels

RULE = RULES["startup-oom"]
GIB = 2.0**30
TEXT = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB of"
    " which 200.00 MiB is free. Including non-PyTorch memory, this process has 78.90 GiB memory in"
    " use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 400.00 MiB is reserved by"
    " PyTorch but unallocated."
)


def judge(*samples, steps=0.0, line=TEXT, now=105.0):
    """What it says of an error at 100 s; `samples` are (metric, labels, value), of rank 0."""
    window = Window(RULE.reads)
    told = [("gpudiag_train_steps_total", {}, steps), *samples]
    window.now = now
    window.add(
        [Sample(m, labels(job="j", rank="0", **of), 100.0, value) for m, of, value in told],
        [Event(100.0, "torch", line, "oom", {"rank": "0"})] if line else [],
    )
    return list(RULE.check(window, default_limits(RULE)))


def cause(*samples, **more):
    (verdict,) = (v for v in judge(*samples, **more) if isinstance(v, Diagnosis))
    assert verdict.subject == subject(job="j", rank="0")
    return verdict.cause


def model(kind, gib, dtype="bfloat16", scope="local"):
    return ("gpudiag_model_bytes", {"kind": kind, "dtype": dtype, "scope": scope}, gib * GIB)


def test_without_an_error_a_job_is_healthy():
    assert Healthy(subject(job="j")) in judge(line="")


def test_late_in_a_run_it_is_no_matter_of_the_start():
    assert not any(isinstance(v, Diagnosis) for v in judge(steps=5000.0))


def test_the_text_alone_leaves_it_open():
    assert cause() == "undetermined"


@pytest.mark.parametrize(
    ("batch", "named"), [(16.0, "batch-too-large"), (1.0, "sequence-too-long")]
)
def test_mostly_activations(batch, named):
    none: dict[str, str] = {}
    size = ("gpudiag_train_batch_size", none, batch)
    length = ("gpudiag_train_sequence_length", none, 8192.0)
    assert cause(model("parameter", 14), size, length) == named


def test_a_batch_of_which_half_would_not_fit_either_is_not_the_cause():
    fixed = [model("parameter", 14), ("gpudiag_train_batch_size", {}, 4.0)]
    text = TEXT.replace("Tried to allocate 2.00", "Tried to allocate 190.00")
    assert cause(*fixed, line=text) == "undetermined"


def test_parameters_in_float32_against_what_was_asked_for():
    asked = ("gpudiag_train_config_info", {"precision": "bf16"}, 1.0)
    assert cause(model("parameter", 50, "float32"), asked) == "mixed-precision-off"
    assert cause(model("parameter", 50, "bfloat16"), asked) == "undetermined"


def test_what_was_said_stands_once_the_process_is_gone():
    assert judge(model("parameter", 14), now=200.0) == []
