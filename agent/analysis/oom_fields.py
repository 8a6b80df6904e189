"""The figures in an out-of-memory text, whichever release or backend worded it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

_UNITS = {
    "bytes": 1,
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "KB": 1 << 10,
    "MB": 1 << 20,
    "GB": 1 << 30,
}
_SIZE = r"(\d{1,20}(?:\.\d{1,6})?)(bytes|[KMGT]iB|[KMG]B|B)"
UNKNOWN = 2**63
"""Sizes from here on are the sentinel 2^64-1 (17179869184.00 GiB): the driver did not tell."""

# Texts without white space; the first that matches gives the field.
_PATTERNS = {
    "requested": (
        rf"[Tt]riedtoallocate{_SIZE}",
        rf"Requested:{_SIZE}",
        rf"memoryutilization\([\d.]{{1,8}},{_SIZE}\)",
        rf"\({_SIZE}KVcacheisneeded",
    ),
    "total": (
        rf"totalcapac(?:i?ty)of{_SIZE}",
        rf";{_SIZE}totalcapacity",
        rf"Devicelimit:{_SIZE}",
        rf"\([\d.]{{1,12}}/{_SIZE}\)onstartup",
    ),
    "free": (
        rf"ofwhich{_SIZE}isfree",
        rf";{_SIZE}free[;)]",
        rf"Free\(accordingtoCUDA\):{_SIZE}",
        r"\((\d{1,9}(?:\.\d{1,6})?)/[\d.]{1,12}(GiB)\)onstartup",
        rf"availableKVcachememory\({_SIZE}\)",
    ),
    "own": (rf"thisprocesshas{_SIZE}memoryinuse",),
    "allowed": (rf"[;.]{_SIZE}allowed;", rf"memoryfraction\):{_SIZE}"),
    "allocated": (
        rf"allocatedmemory{_SIZE}isallocated",
        rf"{_SIZE}isallocatedbyPyTorch",
        rf";{_SIZE}alreadyallocated",
        rf"Currentlyallocated:{_SIZE}",
    ),
    "private": (rf"with{_SIZE}allocatedinprivatepools",),
    "unallocated": (rf"and{_SIZE}isreservedbyPyTorchbut", rf"and{_SIZE}isreserved"),
    "reserved": (rf";{_SIZE}reservedintotal", rf";{_SIZE}cached\)"),
}
_FIELDS = {name: tuple(map(re.compile, texts)) for name, texts in _PATTERNS.items()}
_OTHER = re.compile(rf"Process(\d{{1,10}})has{_SIZE}memoryinuse")
_DEVICE = re.compile(
    r"GPU(\d{1,3})hasatotal|[(](?:GPU|XPU|NPU|MUSA|GCU)(\d{1,3});|ondevice(\d{1,3})"
)
_MORE_THAN_ANY = re.compile(r"allocatemorethan1EB", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Figures:
    """Sizes in bytes as the text rounds them, None where it does not say.

    `allocated` counts free memory of private pools (`private`) as well; `unallocated` is what the
    cache holds besides. `unknown` names fields whose figure was the driver's "not known". `others`
    are (pid, bytes) of the processes listed; `absurd` a request of more than an exabyte.
    """

    device: int | None = None
    requested: int | None = None
    total: int | None = None
    free: int | None = None
    own: int | None = None
    allowed: int | None = None
    allocated: int | None = None
    private: int | None = None
    unallocated: int | None = None
    reserved: int | None = None
    others: tuple[tuple[int, int | None], ...] = ()
    unknown: tuple[str, ...] = ()
    absurd: bool = False

    def __bool__(self) -> bool:
        """Whether the text gave any figure at all."""
        return any(getattr(self, field.name) not in (None, (), False) for field in fields(self))


def read(text: str) -> Figures:
    """The figures of one message; `text` holds no white space."""
    found: dict[str, int] = {}
    for name, patterns in _FIELDS.items():
        match = next((m for p in patterns if (m := p.search(text))), None)
        if match:
            found[name] = _bytes(match[1], match[2])
    unknown = tuple(name for name, size in found.items() if size >= UNKNOWN)
    known = {name: size for name, size in found.items() if size < UNKNOWN}
    if known.get("reserved", 0) < known.get("allocated", 0) and "cached)" in text:
        # Before 1.4 "cached" meant what is cached and not allocated.
        known["unallocated"] = known.pop("reserved", 0)
    if "reserved" not in known and known.keys() >= {"allocated", "unallocated"}:
        known["reserved"] = known["allocated"] + known["unallocated"]
    if "unallocated" not in known and known.keys() >= {"allocated", "reserved"}:
        known["unallocated"] = max(known["reserved"] - known["allocated"], 0)
    device = _DEVICE.search(text)
    return Figures(
        device=int(next(filter(None, device.groups()))) if device else None,
        others=tuple((int(m[1]), _known(m[2], m[3])) for m in _OTHER.finditer(text)),
        unknown=unknown,
        absurd=bool(_MORE_THAN_ANY.search(text)),
        **known,
    )


def _bytes(value: str, unit: str) -> int:
    return int(float(value) * _UNITS[unit])


def _known(value: str, unit: str) -> int | None:
    size = _bytes(value, unit)
    return None if size >= UNKNOWN else size
