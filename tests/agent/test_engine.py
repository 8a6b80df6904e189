from gpudiag.agent.engine import JOB_ENDED, Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.rules.contract import Diagnosis, Rule, subject
from gpudiag.probes import Event

RANK = subject(job="llama", rank="3")


def test_a_jobs_clean_end_resolves_what_was_found_in_it() -> None:
    said = [Diagnosis(RANK, "slow-worker", 0.9, "Rank 3 is slow.", ())]
    rules = {"straggler": Rule(check=lambda window, limits: tuple(said))}
    engine = Engine(rules, {"straggler": {}}, window_for(rules), Book(rules))
    assert [f.state for f in engine.evaluate(1.0)] == ["firing"]
    said.clear()
    engine.ingest([], [Event(2.0, "torch", "job other has ended", JOB_ENDED, {"job": "other"})])
    assert [f.state for f in engine.evaluate(2.0) if f.state == "resolved"] == []
    engine.ingest([], [Event(3.0, "torch", "job llama has ended", JOB_ENDED, {"job": "llama"})])
    assert [(f.state, f.reason) for f in engine.evaluate(3.0)] == [("resolved", "ended")]
