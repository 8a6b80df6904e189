import pynvml
import pytest

from gpudiag.probes import catalog


def test_the_reasons_are_those_of_the_throttle_label() -> None:
    names = {event.bit: event.name for event in catalog.clock_events().values()}
    assert names == {
        0x1: "idle", 0x2: "app_clocks", 0x4: "power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
        0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "power_brake", 0x100: "display",
        0x200: "board_limit", 0x400: "reliability",
    }  # fmt: skip


def test_all_bits_that_the_library_knows_are_named() -> None:
    assert sum(catalog.clock_events()) == pynvml.nvmlClocksThrottleReasonAll


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("power_cap", pynvml.NVML_FI_DEV_PERF_POLICY_POWER),
        ("sync_boost", pynvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST),
        ("sw_thermal", pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN),
        ("hw_thermal", pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN),
        ("power_brake", pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN),
        ("idle", 0),
    ],
)
def test_duration_field(name: str, field: int) -> None:
    [event] = [e for e in catalog.clock_events().values() if e.name == name]
    assert event.duration_field == field


def test_the_codes_are_those_of_the_library() -> None:
    prefix = "NVML_ERROR_"
    library = {getattr(pynvml, n): n.removeprefix(prefix) for n in dir(pynvml) if n[:11] == prefix}
    ours = {code.code: code.name for code in catalog.nvml_codes().values() if code.code}
    assert ours.items() >= library.items()


@pytest.mark.parametrize(
    ("code", "trouble"),
    [(0, "none"), (3, "absent"), (9, "driver"), (15, "gpu"), (16, "gpu"), (18, "driver"),
     (999, "agent")],
)  # fmt: skip
def test_whose_trouble(code: int, trouble: str) -> None:
    assert catalog.nvml_codes()[code].trouble == trouble


def test_the_recovery_actions_are_those_of_the_library() -> None:
    prefix = "NVML_GPU_RECOVERY_ACTION_"
    library = {n.removeprefix(prefix).lower(): getattr(pynvml, n) for n in dir(pynvml)
               if n.startswith(prefix)}  # fmt: skip
    assert {a.name: a.value for a in catalog.recovery_actions().values()} == library


@pytest.mark.parametrize(
    ("value", "action"), [(0, "none"), (2, "reboot_node"), (4, "drain_and_reset")]
)
def test_recovery_action(value: int, action: str) -> None:
    assert catalog.recovery_actions()[value].action == action
