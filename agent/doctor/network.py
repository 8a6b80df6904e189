"""Doctor's lines about network cards and InfiniBand ports."""

from __future__ import annotations

from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line, State, judged

AREA = "network"


def lines(look: Look) -> list[Line]:
    """One line per card and per port, or why there is none."""
    return [
        *(_missing(look, "network") or _cards(look)),
        *(_missing(look, "infiniband") or _ports(look)),
    ]


def _missing(look: Look, probe: str) -> list[Line]:
    status = look.statuses.get(probe)
    if status is None:
        return [Line(AREA, probe, "absent", "The probe is switched off.")]
    if probe in look.silent or not status.ok:
        return [Line(AREA, probe, "unknown", status.detail or "no answer")]
    return [] if status.available else [Line(AREA, probe, "absent", status.detail)]


def _cards(look: Look) -> list[Line]:
    found = []
    for labels in look.window.seen("gpudiag_network_rx_bytes_total"):
        device = labels["device"]
        up = look.value("gpudiag_network_up", device=device)
        facts = [] if up is None else ["up" if up else "down"]
        for word in ("errors", "drops", "carrier_changes"):
            count = look.value(f"gpudiag_network_{word}_total", device=device)
            facts += [f"{count:.0f} {word.replace('_', ' ')} since boot"] if count else []
        line = Line(AREA, device, _state(up), ", ".join(facts) or "no link state")
        found.append(judged(line, look.about("device", device)))
    return found


def _ports(look: Look) -> list[Line]:
    found = []
    for point in look.window.latest("gpudiag_ib_port_up"):
        device, port = point.labels["device"], point.labels["port"]
        downed = look.value("gpudiag_ib_link_downed_total", device=device, port=port)
        errors = look.window.latest("gpudiag_ib_errors_total", device=device, port=port)
        facts = ["active" if point.value else "not active"]
        facts += [f"link lost {downed:.0f} times since boot"] if downed else []
        facts += [f"{p.value:.0f} {p.labels['kind']}" for p in errors if p.value]
        line = Line(AREA, f"{device} port {port}", _state(point.value), ", ".join(facts))
        found.append(judged(line, look.about("device", device)))
    return found


def _state(up: float | None) -> State:
    # A port without a cable is as common as one that failed: only a rule tells them apart.
    return "note" if up == 0 else "ok"
