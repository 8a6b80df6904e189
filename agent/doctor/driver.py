"""Doctor's lines about the driver: does it answer, do its versions agree, are all GPUs there."""

from __future__ import annotations

from pathlib import Path

from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line, State, judged
from gpudiag.probes import catalog
from gpudiag.probes.catalog import NvmlCode
from gpudiag.probes.catalog.records import Trouble

AREA = "driver"
_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"
VERSION_MISMATCH = 18
_COMPARE = "Compare `nvidia-smi -L` with `lspci -d 10de:` and read the kernel log's lines below."
_STATES: dict[Trouble, State] = {"absent": "absent", "agent": "unknown"}


def pci_gpus(sys: Path) -> int:
    """NVIDIA GPUs on the PCI bus, whatever the driver says of them."""
    return sum(
        _text(device / "vendor") == _NVIDIA and _text(device / "class").startswith(_DISPLAY_CLASS)
        for device in (sys / "bus/pci/devices").glob("*")
    )


def lines(look: Look, on_bus: int) -> list[Line]:
    """The driver, its versions and the count of GPUs; `on_bus` is what the PCI bus holds."""
    answer = judged(_answer(look), look.of("nvml-wedged"))
    return [answer, *_versions(look), _count(look, on_bus, answer.state)]


def _answer(look: Look) -> Line:
    status, code = look.statuses.get("nvml"), look.value("gpudiag_nvml_return_code")
    if status is None:
        return Line(AREA, "NVML", "unknown", "The nvml probe is switched off.", "Enable it.")
    if "nvml" in look.silent or look.value("gpudiag_nvml_wedged"):
        return _silent(look)
    if not status.available:
        return Line(AREA, "NVML", "absent", status.detail)
    if code:
        return _refused(catalog.nvml_codes().get(int(code)), int(code))
    if not status.ok:
        return Line(AREA, "NVML", "unknown", status.detail, "Read the log of this command.")
    return Line(AREA, "NVML", "ok", "The driver answers.")


def _silent(look: Look) -> Line:
    return Line(
        AREA,
        "NVML",
        "critical",
        f"NVML does not answer: no call came back in {look.seconds:.0f} s.",
        "Look for tasks in D state (`ps -eo pid,stat,wchan:30,comm | grep ' D'`) and for XIDs in"
        " the kernel log; do not start nvidia-smi again and again, each would hang as well.",
    )


def _refused(code: NvmlCode | None, number: int) -> Line:
    if code is None:
        todo = "Read the kernel log; this code is newer than the catalogue."
        return Line(AREA, "NVML", "unknown", f"NVML answers {number}, a code not known.", todo)
    seen = f"NVML answers {number} ({code.name}): {code.meaning}."
    return Line(AREA, "NVML", _STATES.get(code.trouble, "critical"), seen, code.todo)


def _versions(look: Look) -> list[Line]:
    found = []
    for point in look.window.latest("gpudiag_driver_info"):
        library, module = point.labels.get("nvml", ""), point.labels.get("kernel_module", "")
        seen = f"library {library or 'not told'}, kernel module {module or 'not told'}"
        line = Line(AREA, "versions", "ok" if library and module else "unknown", seen)
        if library and module and library != module:
            mismatch = catalog.nvml_codes()[VERSION_MISMATCH]
            line = Line(AREA, "versions", "critical", seen, mismatch.todo)
        found.append(judged(line, look.of("driver-mismatch")))
    return found


def _count(look: Look, on_bus: int, answer: State) -> Line:
    listed, expected = look.value("gpudiag_gpus"), look.value("gpudiag_gpus_expected")
    if listed is None:
        return _unlisted(on_bus, answer)
    seen = f"{listed:.0f} listed by the driver"
    seen += f", {on_bus} on the PCI bus" if on_bus else ""
    seen += "" if expected is None else f", {expected:.0f} expected"
    line = Line(AREA, "GPUs", "ok", seen)
    if expected is not None and listed < expected:
        line = Line(AREA, "GPUs", "critical", seen, _COMPARE)
    elif listed < on_bus:
        # A container sees the whole bus and the GPUs it was given: fewer is no fault by itself.
        line = Line(AREA, "GPUs", "note", seen, f"If all were given to this process: {_COMPARE}")
    return judged(line, look.of("gpu-count-low"))


def _unlisted(on_bus: int, answer: State) -> Line:
    if on_bus:
        seen = f"{on_bus} on the PCI bus, none can be read"
        return Line(AREA, "GPUs", "unknown", seen, "Mend the driver first, see the line above.")
    if answer == "absent":
        return Line(AREA, "GPUs", "absent", "No NVIDIA GPU on the PCI bus.")
    return Line(AREA, "GPUs", "unknown", "The driver lists none.", "See the line above.")


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
