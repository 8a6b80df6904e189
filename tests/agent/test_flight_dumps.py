from pathlib import Path

from gpudiag.agent.flight_dumps import judged

FLIGHT = Path(__file__).parent / "analysis/flight"


def test_a_hang_s_dumps_are_told_as_a_line_that_rules_know() -> None:
    ((line, fields),) = judged(sorted(FLIGHT.glob("missing_*")))
    assert line.startswith("Collective 4 timed out")
    assert "rank 1 never entered" in line
    assert fields == {"cause": "hung-collective"}


def test_what_is_no_dump_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "trace_0").write_bytes(b"\x80\x04garbage")
    assert list(judged([tmp_path / "trace_0"])) == []
