"""Doctor's line per GPU: its figures in one sentence, under what the rules found about it."""

from __future__ import annotations

from collections.abc import Callable

from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line, judged
from gpudiag.agent.rules import _gpus
from gpudiag.agent.rules._xid_advice import ADVICE
from gpudiag.probes import catalog
from gpudiag.probes.catalog import RecoveryAction

AREA = "gpu"
GIB = 1024**3
FABRIC_COMPLETED = 3

Fact = Callable[[Look, str], str]


def lines(look: Look) -> list[Line]:
    """One line per GPU that was seen, in the driver's order; MIG slices belong to their GPU."""
    found = {u: n for u, n in _gpus.known(look.window).items() if not u.startswith("MIG-")}
    return [
        _line(look, uuid, found[uuid]) for uuid in sorted(found, key=lambda u: _index(found[u]))
    ]


def _index(labels: dict[str, str]) -> tuple[int, str]:
    number = labels.get("gpu", "")
    return (int(number) if number.isdigit() else 0), labels["uuid"]


def _line(look: Look, uuid: str, labels: dict[str, str]) -> Line:
    check = _gpus.title(labels)
    facts = [fact for make in _FACTS if (fact := make(look, uuid))]
    lost = look.value("gpudiag_gpu_lost", uuid=uuid)
    if lost:
        todo = "Look for XID 79 in the kernel log; a reset or a reboot brings it back, or nothing."
        line = Line(AREA, check, "critical", "The driver says that it is lost.", todo)
    elif facts:
        todo = _asked_for(look, uuid)
        line = Line(AREA, check, "warning" if todo else "ok", ", ".join(facts), todo)
    else:
        line = Line(AREA, check, "unknown", "It gave no reading.", "See the driver's lines above.")
    return judged(line, look.about("uuid", uuid))


def _asked_for(look: Look, uuid: str) -> str:
    """What the driver says must be done: a standing state, true from the first reading on."""
    action = _recovery_action(look, uuid)
    if action and ADVICE[action.action]:
        return ADVICE[action.action][0].text
    if look.value("gpudiag_gpu_row_remap_failed", uuid=uuid):
        return ADVICE["replace_gpu"][0].text
    if look.value("gpudiag_gpu_row_remap_pending", uuid=uuid):
        return ADVICE["reset_gpu"][0].text
    return ""


def _recovery_action(look: Look, uuid: str) -> RecoveryAction | None:
    value = look.value("gpudiag_gpu_recovery_action", uuid=uuid)
    return catalog.recovery_actions().get(int(value)) if value else None


def _name(look: Look, uuid: str) -> str:
    points = look.window.latest("gpudiag_gpu_info", uuid=uuid)
    return points[0].labels.get("name", "") if points else ""


def _memory(look: Look, uuid: str) -> str:
    used = look.value("gpudiag_gpu_memory_used_bytes", uuid=uuid)
    total = look.value("gpudiag_gpu_memory_total_bytes", uuid=uuid)
    if used is None or total is None:
        return ""
    return f"{used / GIB:.1f} of {total / GIB:.1f} GiB used"


def _load(look: Look, uuid: str) -> str:
    busy = look.value("gpudiag_gpu_utilization_ratio", uuid=uuid)
    return "" if busy is None else f"{busy:.0%} busy"


def _heat(look: Look, uuid: str) -> str:
    core = look.value("gpudiag_gpu_temperature_celsius", uuid=uuid, sensor="core")
    watts = look.value("gpudiag_gpu_power_watts", uuid=uuid)
    limit = look.value("gpudiag_gpu_power_limit_watts", uuid=uuid)
    parts = [] if core is None else [f"{core:.0f} °C"]
    if watts is not None:
        parts.append(f"{watts:.0f} W" if limit is None else f"{watts:.0f} of {limit:.0f} W")
    return ", ".join(parts)


def _throttle(look: Look, uuid: str) -> str:
    points = look.window.latest("gpudiag_gpu_throttle_active", uuid=uuid)
    active = sorted(p.labels["reason"] for p in points if p.value and p.labels["reason"] != "idle")
    return f"clock held by {', '.join(active)}" if active else ""


def _pcie(look: Look, uuid: str) -> str:
    read = [
        look.value(f"gpudiag_gpu_pcie_link_{what}", uuid=uuid)
        for what in ("generation", "generation_max", "width", "width_max")
    ]
    known = [value for value in read if value is not None]
    if len(known) < len(read):
        return ""
    generation, best, width, widest = known
    text = f"PCIe Gen{generation:.0f} x{width:.0f}"
    if generation >= best and width >= widest:
        return text
    # An idle GPU lowers its link on purpose: only a look under load tells a bad slot.
    return f"{text} of Gen{best:.0f} x{widest:.0f} (tells something only under load)"


def _nvlink(look: Look, uuid: str) -> str:
    points = look.window.latest("gpudiag_gpu_nvlink_up", uuid=uuid)
    return f"NVLink {sum(p.value for p in points):.0f} of {len(points)} up" if points else ""


def _fabric(look: Look, uuid: str) -> str:
    state = look.value("gpudiag_gpu_fabric_state", uuid=uuid)
    if state is None or state == 0:
        return ""
    return (
        "fabric joined" if state == FABRIC_COMPLETED else f"fabric not joined (state {state:.0f})"
    )


def _ecc(look: Look, uuid: str) -> str:
    points = look.window.latest(
        "gpudiag_gpu_ecc_errors_total", uuid=uuid, kind="uncorrected", scope="volatile"
    )
    return f"{points[0].value:.0f} uncorrected ECC errors" if points else ""


def _rows(look: Look, uuid: str) -> str:
    told = []
    if look.value("gpudiag_gpu_row_remap_failed", uuid=uuid):
        told.append("row remapping failed")
    if look.value("gpudiag_gpu_row_remap_pending", uuid=uuid):
        told.append("row remapping waits for a reset")
    return ", ".join(told)


def _recovery(look: Look, uuid: str) -> str:
    action = _recovery_action(look, uuid)
    return f"the driver asks: {action.meaning}" if action else ""


_FACTS: tuple[Fact, ...] = (
    _name,
    _memory,
    _load,
    _heat,
    _throttle,
    _pcie,
    _nvlink,
    _fabric,
    _ecc,
    _rows,
    _recovery,
)
