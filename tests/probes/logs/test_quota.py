from gpudiag.probes.logs import quota
from gpudiag.probes.logs.quota import Quota


def admitted(one: Quota, texts: list[str], now: float = 0.0, *, chatter: bool = False) -> int:
    return sum(one.admits("log", "error", text, now, chatter=chatter) for text in texts)


def test_the_first_alike_pass_and_the_rest_is_counted() -> None:
    one = Quota()
    assert admitted(one, [f"KeyError: {n}" for n in range(100)]) == quota.MAX_ALIKE
    assert one.dropped == 100 - quota.MAX_ALIKE


def test_a_minute_later_they_pass_again() -> None:
    one = Quota()
    admitted(one, ["x"] * 100)
    assert admitted(one, ["x"], now=61.0) == 1


def test_a_log_as_a_whole_is_bounded() -> None:
    texts = ["".join(chr(97 + int(d)) for d in str(n)) for n in range(2 * quota.MAX_PER_LOG)]
    assert admitted(Quota(), texts) == quota.MAX_PER_LOG


def test_chatter_passes_now_and_then_and_is_not_missed() -> None:
    one = Quota()
    assert admitted(one, [f"loading {n}%" for n in range(50)], chatter=True) == quota.MAX_CHATTER
    assert one.dropped == 0


def test_what_is_counted_is_bounded() -> None:
    one = Quota()
    for number in range(2 * quota.MAX_SHAPES):
        one.admits(f"log{number}", "error", "x", 0.0, chatter=False)
    assert len(one._counts) <= quota.MAX_SHAPES
