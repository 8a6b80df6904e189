"""What the kernel said: one line of its log becomes a fact (a GPU fault, an OOM kill, a flap).

Pure text in, `KernelFact` out; used by the live reader and by whoever holds raw kernel text. The
line may carry the prefix of dmesg, syslog, journald or /dev/kmsg.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gpudiag.probes import MAX_LINE
from gpudiag.probes.kernel_patterns import ADDRESS, PATTERNS, Kind

Severity = Literal["", "corrected", "nonfatal", "fatal"]


@dataclass(frozen=True, slots=True)
class KernelFact:
    """One recognised kernel line; what the line does not say is "" or None.

    `pci` is `0000:b3:00.0`; `code` the XID or SXid; `name` the process, network device, disk or
    server it is about; `detail` the writer's own words (driver_load: the version; XID 154: the
    recovery action; oom_kill: constraint and cgroup, or sizes).
    """

    kind: Kind
    pci: str = ""
    code: int | None = None
    pid: int | None = None
    name: str = ""
    severity: Severity = ""
    detail: str = ""


_PCI = re.compile(
    r"(?:PCI:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?$", re.IGNORECASE
)


@lru_cache(maxsize=256)
def normalise_pci(text: str) -> str:
    """The bus id as sysfs writes it (`0000:b3:00.0`), from NVML's or the driver's form; "" if none.

    NVML pads the domain to eight digits in upper case, the driver leaves out the function.
    """
    found = _PCI.match(text.strip())
    if not found:
        return ""
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function or '0'}".lower()


_PREFIX = re.compile(
    r"(?:\d+,\d+,\d+,[^;]{0,64};)?"
    r"(?:(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*) )?"
    r"(?:(?:\S+ )?kernel(?:\[\d+\])?: )?"
    r"(?:[a-z]{3,8} *:[a-z]{3,6} *: )?(?:<\d{1,3}>)?"
    r"(?:\[[^\]]{0,32}\d\.\d{3,6}(?:,\d+)?\]\s*|\[\w{3} \w{3} [ \d:]+\]\s*)?"
)


def strip_prefix(line: str) -> str:
    """The kernel's text without the prefix that dmesg, syslog, journald or /dev/kmsg put."""
    line = line.strip()
    if "\n" in line:
        line = " ".join(line.splitlines())
    # /dev/kmsg itself adds no prefix, and the driver's lines are those that come in floods.
    if line.startswith("NVRM: "):
        return line
    found = _PREFIX.match(line)
    return line[found.end() :] if found else line


def _severity(text: str) -> Severity:
    # "Non-fatal" and "Nonfatal" hold "fatal" as well, so the negation is asked first.
    low = text.lower()
    if "non-fatal" in low or "nonfatal" in low:
        return "nonfatal"
    if "fatal" in low:
        return "fatal"
    return "corrected" if "correct" in low and "uncorrect" not in low else ""


RECOVERY_CHANGED = 154
# A MIG instance is written inside the parenthesis: (PCI:0000:07:00 GPU-I:05).
_HEAD = re.compile(rf"Xid \((?:PCI:)?{ADDRESS}[^)]{{0,64}}\): (?P<code>\d{{1,6}})(?P<rest>.*)")
_PROCESS = re.compile(r"^,? *pid='?(?P<pid>\d{1,10}|<unknown>)'?(?:, name=(?P<name>[^,]*))?,? *")
_FATALITY = re.compile(r"^\w+ (?:Fatal|Non-?fatal)\b", re.IGNORECASE)
_VERDICT = re.compile(r"\(([^()]*)\)[^()]*$")
_DUMP = re.compile(r"^,? *(?:Data \{|Severity )")
_SWITCH = re.compile(r"nvidia-nvswitch\d+")


def _xid(text: str) -> KernelFact | None:
    head = _HEAD.search(text)
    if not head or "SXid (" in text:
        return None
    rest, code = head["rest"], int(head["code"])
    process = _PROCESS.match(rest)
    pid = process["pid"] if process else ""
    name = ((process["name"] or "") if process else "").strip("'")
    detail = (rest[process.end() :] if process else rest).strip(" ,")
    verdict = _VERDICT.search(detail) if code == RECOVERY_CHANGED else None
    return KernelFact(
        "xid",
        pci=normalise_pci(head["pci"]),
        code=code,
        pid=int(pid) if pid.isdigit() else None,
        name="" if name == "<unknown>" else name,
        severity=_severity(detail) if _FATALITY.match(detail) else "",
        detail=verdict[1] if verdict else detail,
    )


def _sxid(text: str) -> KernelFact | None:
    head = _HEAD.search(text)
    # The register dump that follows an SXid repeats its code and is no second error.
    if not head or _DUMP.match(head["rest"]):
        return None
    switch = _SWITCH.search(text)
    return KernelFact(
        "sxid",
        pci=normalise_pci(head["pci"]),
        code=int(head["code"]),
        name=switch[0] if switch else "",
        severity=_severity(head["rest"]),
        detail=head["rest"].strip(" ,"),
    )


_AER = re.compile(
    rf"error (?:received|message received from):? {ADDRESS}"
    rf"|{ADDRESS.replace('<pci>', '<device>')}: (?:AER: )?PCIe Bus Error: "
)


def _aer(text: str) -> KernelFact | None:
    found = _AER.search(text)
    if not found:
        return None
    # The reporting port comes first in the line; the device at fault is what is kept.
    pci = normalise_pci(found["pci"] or found["device"])
    return KernelFact("aer", pci=pci, severity=_severity(text), detail=text)


Reader = Callable[[str], KernelFact | None]


def _reader(kind: Kind, pattern: str) -> Reader:
    expression = re.compile(pattern)

    def read(text: str) -> KernelFact | None:
        found = expression.search(text)
        if not found:
            return None
        group = found.groupdict(default="")
        pid = group.get("pid", "")
        return KernelFact(
            kind,
            pci=normalise_pci(group.get("pci", "")),
            pid=int(pid) if pid else None,
            name=group.get("name", ""),
            detail=group.get("detail", text).strip(" ,"),
        )

    return read


# A flood must cost little: a broken GPU repeats the same few texts, which the cache of `parse`
# answers, and for the rest the needle is looked for before any expression runs.
_READERS: tuple[tuple[str, Reader], ...] = (
    ("SXid (", _sxid),
    ("Xid (", _xid),
    ("AER: ", _aer),
    ("PCIe Bus Error", _aer),
    *((needle, _reader(kind, pattern)) for needle, kind, pattern in PATTERNS),
)


@lru_cache(maxsize=512)
def parse(line: str) -> KernelFact | None:
    """The fact in one kernel line, None where it is nothing that gpudiag knows. Never raises."""
    text = ""
    for needle, read in _READERS:
        if needle in line:
            text = text or strip_prefix(line[:MAX_LINE])
            fact = read(text)
            if fact is not None:
                return fact
    return None
