import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.probes.catalog.nvlink import decode_nvlink4, decode_nvlink5

HEAD = "NVRM: Xid (PCI:0018:01:00): %d, "


@pytest.mark.parametrize(
    ("xid", "text", "unit", "action"),
    [
        (144, "SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000001 0x00000001 0x0)", "SAW_MVB", "none"),
        (144, "SAW_MVB Fatal XC0 i0 Link 00 (0x00000001 0x00000002 0x0)", "SAW_MVB", "reset_gpu"),
        (145, "RLW_REMAP Nonfatal XC0 i0 Link 08 (0x4 0x00000100 0x0)", "RLW_REMAP", "none"),
        (145, "RLW_REMAP Nonfatal XC1 i0 Link 08 (0x4 0x1 0x0)", "RLW_REMAP", "follow_154"),
        (145, "RLW_REMAP Fatal XC0 i0 Link 08 (0x4 0x40 0x0)", "RLW_REMAP", "reset_gpu"),
        (146, "TLW_RX/TLW_RX_PIPE1 Nonfatal XC0 i0 Link 01 (0xb 0x1)", "TLW_RX_PIPE1", "none"),
        (146, "TLW_RX Nonfatal XC0 i0 Link 01 (0x0000000b 0x1)", "TLW_RX", "none"),
        (149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x13 0x1)", "NETIR_BER_EVENT", "none"),
        (150, "MSE_WATCHDOG Fatal XC0 i0 Link 00 (0x0 0x0)", "MSE_WATCHDOG", "reset_gpu"),
    ],
)
def test_sub_code(xid: int, text: str, unit: str, action: str) -> None:
    for line in (text, HEAD % xid + text):
        error = decode_nvlink5(xid, line)
        assert error is not None
        assert (error.unit, error.action) == (unit, action)
        assert error.known


@pytest.mark.parametrize(
    ("info", "look_at", "action"),
    [
        ("0x004505c6", "link", "reset_gpu"),
        ("0x00400011", "link", "reset_gpu"),
        ("0x02000011", "peer", "reset_gpu"),
        ("0x02800011", "host", "none"),
    ],
)
def test_a_link_that_went_down_says_where_to_look(info: str, look_at: str, action: str) -> None:
    error = decode_nvlink5(149, f"NETIR_LINK_EVT Fatal XC0 i0 Link 14 ({info} 0x00000000)")
    assert error is not None
    assert (error.link, error.look_at, error.action) == (14, look_at, action)


@pytest.mark.parametrize(("info", "action"), [("0x06", "none"), ("0x86", "reset_gpu")])
def test_a_promoted_error_needs_a_reset(info: str, action: str) -> None:
    error = decode_nvlink5(145, f"RLW_RXPIPE Nonfatal XC0 i0 Link 00 ({info} 0x00000001)")
    assert error is not None
    assert error.action == action


def test_in_the_older_layout_the_promoted_bit_is_the_tenth() -> None:
    error = decode_nvlink5(145, "RLW_RXPIPE Nonfatal XC0 i0 Link 00 (0x4c2 0x00000001)")
    assert error is not None
    assert error.action == "reset_gpu"


@pytest.mark.parametrize(("word", "severity"), [("Nonfatal", "info"), ("Fatal", "critical")])
def test_an_unlisted_status_goes_by_the_lines_severity(word: str, severity: str) -> None:
    error = decode_nvlink5(147, f"NEW_UNIT {word} XC0 i0 Link 01 (0xffffffff 0x00000400)")
    assert error is not None
    assert (error.unit, error.severity, error.known) == ("NEW_UNIT", severity, False)


def test_of_several_status_bits_the_gravest_decides() -> None:
    error = decode_nvlink5(145, "RLW_REMAP Fatal XC0 i0 Link 08 (0x4 0x00000141)")
    assert error is not None
    assert error.known
    assert error.action == "reset_gpu"


@pytest.mark.parametrize("text", ["", "145, pid=1", "RLW_REMAP", "Fatal", HEAD % 145])
def test_another_form_is_not_decoded(text: str) -> None:
    assert decode_nvlink5(145, text) is None


def words(**bits: int) -> str:
    values = [bits.get(f"w{n}", 0) for n in range(1, 8)]
    return "NVLink: fatal error detected on link 6(" + ", ".join(map(hex, values)) + ")"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (words(w1=1 << 0), "none"),
        (words(w1=1 << 16), "check_mechanicals"),
        (words(w1=1 << 4), "none"),
        (words(w3=1 << 13, w1=1 << 8), "check_mechanicals"),
        (words(w4=1 << 18), "reset_gpu"),
        (words(w5=1 << 20), "none"),
        (words(w2=1 << 5), "none"),
    ],
)
def test_xid_74_registers(text: str, action: str) -> None:
    error = decode_nvlink4(text)
    assert error is not None
    assert (error.link, error.action) == (6, action)


def test_a_parity_error_counts_from_the_third_time_on_a_link() -> None:
    errors = [decode_nvlink4(words(w1=1 << 4), seen=n) for n in (2, 3)]
    assert [error.action for error in errors if error] == ["none", "contact_support"]


def test_xid_74_without_registers_is_not_decoded() -> None:
    assert decode_nvlink4("74, pid=1, name=python, NVLink error") is None


PIECES = st.lists(
    st.sampled_from(
        ["RLW_REMAP ", "Nonfatal ", "Fatal ", "Link 08 ", "(0x4 ", "0x100", ")", "(", "/"]
    )
    | st.text(max_size=8)
).map("".join)


@given(st.integers(0, 1000), PIECES)
def test_any_text_is_decoded_or_refused(xid: int, text: str) -> None:
    error = decode_nvlink5(xid, text)
    assert error is None or error.action in {"none", "reset_gpu", "follow_154"}
    decode_nvlink4(text)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=9), st.integers(144, 150))
def test_any_words_give_an_answer(numbers: list[int], xid: int) -> None:
    text = f"RLW_RXPIPE Nonfatal XC0 i0 Link 08 ({' '.join(map(hex, numbers))})"
    assert decode_nvlink5(xid, text) is not None
    assert (decode_nvlink4(text) is None) == (not numbers)
