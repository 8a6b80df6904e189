from gpudiag.agent.rules.contract import Diagnosis, Healthy
from tests.agent.rules.seam import judge

SYMPTOM = "serving-timeouts"
OK = 'gpudiag_serving_requests_total{server="a",outcome="ok"}'
LOST = 'gpudiag_serving_requests_total{server="a",outcome="timeout"}'
WAITING = 'gpudiag_serving_requests_waiting{server="a"}'


def test_timeouts_that_begin_are_told_with_their_share() -> None:
    (said,) = judge(SYMPTOM, {OK: "0+9x80", LOST: "0x60 1+1x19"}, every=15.0)
    assert isinstance(said, Diagnosis)
    assert "10% of all" in said.summary


def test_what_was_always_so_is_no_news() -> None:
    assert judge(SYMPTOM, {OK: "0+90x200", LOST: "0+1x200"}) == [Healthy((("server", "a"),))]


def test_a_queue_explains_them() -> None:
    series = {OK: "0+9x80", LOST: "0x60 1+1x19", WAITING: "0x60 40x19"}
    (said,) = judge(SYMPTOM, series, every=15.0)
    assert isinstance(said, Diagnosis)
    assert said.cause == "queue-timeout"


def test_what_was_not_seen_is_missing() -> None:
    (said,) = judge(SYMPTOM, {OK: "0+9x80", LOST: "0x60 1+1x19"}, every=15.0)
    assert isinstance(said, Diagnosis)
    assert said.cause == "undetermined"
    assert said.missing
