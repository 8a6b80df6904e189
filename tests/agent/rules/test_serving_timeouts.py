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


def test_nobody_waits_for_the_tokens_of_an_encoder() -> None:
    known = 'gpudiag_canary_info{server="a",api="tei-embed",gives="embedding"}'
    (said,) = judge(SYMPTOM, {OK: "0+9x80", LOST: "0x60 1+1x19", known: "1x80"}, every=15.0)
    assert isinstance(said, Diagnosis)
    assert said.cause == "undetermined"
    assert not [m for m in said.missing if "ttft" in m or "generation" in m]
    (rival,) = [rival for rival in said.rivals if rival.cause == "unbounded-generation"]
    assert rival.why_not == "it encodes and writes no tokens"
