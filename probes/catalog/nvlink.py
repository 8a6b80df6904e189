"""What an NVLink line of the kernel log asks for: XID 144-150 (Blackwell), XID 74 (A100, H100)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from gpudiag.probes.catalog import load
from gpudiag.probes.catalog.records import Severity, XidAction


@dataclass(frozen=True, slots=True)
class NvLink5Error:
    """An XID 144-150 line. `known` is false where only the line's own severity was to go by.

    `code` is the error status or, for a link that went down, the reason; None when not in the
    line. `look_at` is link, user, peer, host or "". `follow_154` without a 154 means: restart the
    application.
    """

    xid: int
    unit: str
    fatal: bool
    link: int | None
    code: int | None
    action: XidAction
    severity: Severity
    look_at: str
    known: bool


@dataclass(frozen=True, slots=True)
class RegisterBits:
    """Bits of one word of an XID 74 line; `action` holds from the `repeats`-th time on a link."""

    word: int
    bits: tuple[int, ...]
    meaning: str
    action: XidAction
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class NvLink4Error:
    """An XID 74 line: the link, what its set bits mean and the gravest action among them."""

    link: int | None
    hits: tuple[RegisterBits, ...]
    action: XidAction


@dataclass(frozen=True, slots=True)
class _Unit:
    xid: int
    names: tuple[str, ...]
    v1: int
    v2: int
    by_reason: bool = False
    none: tuple[int, ...] = ()
    reset_gpu: tuple[int, ...] = ()
    follow_154: tuple[int, ...] = ()
    promoted: tuple[int, ...] = ()
    link: tuple[int, ...] = ()
    user: tuple[int, ...] = ()
    peer: tuple[int, ...] = ()
    host: tuple[int, ...] = ()


_HEAD = re.compile(r"\b([A-Z][A-Z0-9_/]*) (Non-?fatal|Fatal)\b")
_LINK = re.compile(r"\blink (\d{1,4})", re.IGNORECASE)
_WORDS = re.compile(r"\(((?:0x[0-9a-f]{1,8}[ ,]*)+)\)", re.IGNORECASE)
_GRAVITY: tuple[XidAction, ...] = ("none", "contact_support", "check_mechanicals", "reset_gpu")
_SEVERITY: dict[XidAction, Severity] = {"follow_154": "warning", "reset_gpu": "critical"}


def decode_nvlink5(xid: int, text: str) -> NvLink5Error | None:
    """What the line of an XID 144-150 means; None where it does not have that form.

    `text` is the whole line or what follows the code:
    `RLW_REMAP Nonfatal XC0 i0 Link 08 (0x00000004 0x00000100 ...)`.
    """
    head = _HEAD.search(text)
    if not head:
        return None
    words = _words(text)
    unit = _unit(xid, head[1].split("/"), words[0] if words else None)
    fatal = head[2] == "Fatal"
    code = _code(unit, words) if len(words) > 1 else None
    listed = _listed(unit, code)
    action = _action(unit, listed, fatal or _promoted(unit, words, code))
    grave: Severity = "warning" if fatal else "info"
    return NvLink5Error(
        xid=xid,
        unit=head[1].rpartition("/")[2],
        fatal=fatal,
        link=_link(text),
        code=code,
        action=action,
        severity=_SEVERITY.get(action, grave),
        look_at=_look_at(unit, code),
        known=listed is not None,
    )


def decode_nvlink4(text: str, seen: int = 1) -> NvLink4Error | None:
    """What the register words of an XID 74 line mean; None where it has none.

    `seen` says how often this link had it lately: some bits count only when they repeat.
    """
    words = _words(text)
    if not words:
        return None
    hits = tuple(
        row
        for row in _registers()
        if row.word <= len(words) and any(words[row.word - 1] >> bit & 1 for bit in row.bits)
    )
    due = [row.action for row in hits if row.repeats <= seen]
    return NvLink4Error(_link(text), hits, max(due, key=_GRAVITY.index, default="none"))


def _words(text: str) -> list[int]:
    groups = _WORDS.findall(text)
    return [int(word, 16) for word in re.split(r"[ ,]+", groups[-1]) if word] if groups else []


def _link(text: str) -> int | None:
    found = _LINK.search(text)
    return int(found[1]) if found else None


def _unit(xid: int, names: list[str], info: int | None) -> _Unit | None:
    units = [unit for unit in _units() if unit.xid == xid]
    by_name = [unit for unit in units if set(names) & set(unit.names)]
    by_number = [unit for unit in units if info is not None and _layout(unit, info)]
    # A name such as TLW_RX covers several units; the number settles which.
    both = [unit for unit in by_name if unit in by_number]
    return next(iter(both or by_name or by_number), None)


def _layout(unit: _Unit, info: int) -> int:
    """2 or 1 when intrInfo names this unit in the layout from R575 on or before it, else 0."""
    if info & 0x7F == unit.v2:
        return 2
    return 1 if info & 0x3FF == unit.v1 << 5 | (unit.xid - 143) else 0


def _code(unit: _Unit | None, words: list[int]) -> int:
    return words[0] >> 20 & 0x3F if unit and unit.by_reason else words[1]


def _promoted(unit: _Unit | None, words: list[int], code: int | None) -> bool:
    if not unit or code not in unit.promoted:
        return False
    flag = {0: 0, 1: 1 << 10, 2: 1 << 7}[_layout(unit, words[0])]
    return bool(words[0] & flag)


def _listed(unit: _Unit | None, code: int | None) -> XidAction | None:
    if unit is None or code is None:
        return None
    lists: tuple[tuple[XidAction, tuple[int, ...]], ...] = (
        ("reset_gpu", unit.reset_gpu),
        ("follow_154", unit.follow_154),
        ("none", unit.none),
    )
    exact = (action for action, codes in lists if code in codes)
    # The status of 144-148 is a bit field: several errors at once, the gravest decides.
    bits = (a for a, codes in lists if unit.xid <= 148 and any(code & known for known in codes))
    return next(exact, None) or next(bits, None)


def _action(unit: _Unit | None, listed: XidAction | None, fatal: bool) -> XidAction:
    if fatal:
        harmless = unit is not None and unit.by_reason and listed == "none"
        return "none" if harmless else "reset_gpu"
    return "follow_154" if listed == "follow_154" else "none"


def _look_at(unit: _Unit | None, code: int | None) -> str:
    if unit is None:
        return ""
    places = {"link": unit.link, "user": unit.user, "peer": unit.peer, "host": unit.host}
    return next((place for place, codes in places.items() if code in codes), "")


@cache
def _units() -> tuple[_Unit, ...]:
    return tuple(load.build(_Unit, row) for row in load.read("nvlink.toml")["unit"])


@cache
def _registers() -> tuple[RegisterBits, ...]:
    return tuple(load.build(RegisterBits, row) for row in load.read("nvlink.toml")["register"])
