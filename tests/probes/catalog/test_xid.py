import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.probes import catalog
from gpudiag.probes.catalog.xid import burst_seconds, explain_burst, recovery_of

LINE = "NVRM: Xid (PCI:0000:b3:00): 154, GPU recovery action changed from 0x0 (None) to 0x%x (%s)"


@pytest.mark.parametrize(
    ("codes", "causes", "consequences"),
    [
        ([45], (45,), ()),
        ([45, 79], (79,), (45,)),
        ([43, 13], (13,), (43,)),
        ([154, 45, 48, 63], (48,), (45, 63, 154)),
        ([119, 79, 45, 43, 154], (79,), (43, 45, 119, 154)),
        ([13, 94], (94, 13), ()),
        ([31, 9999], (31, 9999), ()),
        ([], (), ()),
    ],
)
def test_burst(codes: list[int], causes: tuple[int, ...], consequences: tuple[int, ...]) -> None:
    burst = explain_burst(codes)
    assert (burst.causes, burst.consequences) == (causes, consequences)


@given(st.lists(st.integers(0, 200)))
def test_a_burst_loses_no_code_and_always_has_a_cause(codes: list[int]) -> None:
    burst = explain_burst(codes)
    assert set(burst.causes) | set(burst.consequences) == set(codes)
    assert bool(burst.causes) == bool(codes)


def test_the_burst_window_is_three_minutes() -> None:
    assert burst_seconds() == 180


@pytest.mark.parametrize("value", [0, 1, 2, 3, 4])
def test_verdict_in_the_last_parentheses(value: int) -> None:
    action = catalog.recovery_actions()[value]
    assert recovery_of(LINE % (value, action.xid_154)) == action
    assert recovery_of(action.xid_154) == action


@pytest.mark.parametrize(
    "line",
    ["", LINE % (9, "Replace Rack"), LINE[:70], LINE.replace("(%s)", "%s") % (2, ")("), "()"],
)
def test_a_malformed_verdict_is_unknown(line: str) -> None:
    action = recovery_of(line)
    assert action is None or action.name == "none"


@given(st.text(max_size=200))
def test_any_text_is_unknown_or_a_verdict(text: str) -> None:
    assert recovery_of(text) in (None, *catalog.recovery_actions().values())
