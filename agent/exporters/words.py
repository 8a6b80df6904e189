"""Numbers, times, identifiers and evidence as a person reads them: on the page and a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from gpudiag.probes.catalog import Metric, metrics

# A time before 1973 is an offset into a recording whose clock starts at 0.
_FIRST_EPOCH = 1e8

_NO_BREAK = "\N{NO-BREAK SPACE}"

_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
_SPELLED = {"pcie": "PCIe", "nvlink": "NVLink", "ib": "InfiniBand"} | {
    word: word.upper() for word in ("gpu", "cpu", "xid", "ecc", "nvml", "kv", "rx", "tx", "oom")
}
_SYMBOLS = {"seconds": "s", "celsius": "°C", "watts": "W", "joules": "J", "hertz": "Hz"}

_SOURCES = {"kmsg": "Kernel log"}
# The finding's subject says these already.
_OBVIOUS = frozenset({"uuid", "gpu", "node"})
_LIMIT = re.compile(r"(\D*?)([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")


class Said(NamedTuple):
    """One piece of evidence in words; `expected` is empty where none was stated."""

    title: str
    value: str
    expected: str


def quantity(value: float | str, unit: str) -> str:
    """A value with its unit: `57.3 GiB`, `97 %`, `1.16 GHz`; text stays as it is."""
    if isinstance(value, str) or not math.isfinite(value):
        return str(value)
    if unit == "bytes":
        return _scaled(value, _BINARY, "B")
    if unit == "ratio":
        return f"{value * 100:.3g} %"
    if unit == "hertz":
        return _scaled(value, tuple((factor, prefix + "Hz") for factor, prefix in _SI), "Hz")
    if unit == "seconds" and abs(value) >= 60:
        return duration(value)
    number = f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"
    return f"{number} {_SYMBOLS.get(unit, unit)}".rstrip()


def _scaled(value: float, scales: tuple[tuple[float, str], ...], base: str) -> str:
    for factor, unit in scales:
        if abs(value) >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} {base}"


def duration(seconds: float) -> str:
    """`45 s`, `8 min`, `3 h 20 min`, `2 d 4 h`."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{max(seconds, 0):.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min".removesuffix(" 0 min")
    return f"{minutes // 1440} d {minutes % 1440 // 60} h".removesuffix(" 0 h")


def clock(time: float) -> str:
    """The node's local time; for a recording that starts at 0 the time into it."""
    if time < _FIRST_EPOCH:
        return f"{timedelta(seconds=int(time))} into the recording"
    return f"{_local(time):%Y-%m-%d %H:%M:%S %Z}"


def utc(time: float) -> str:
    """Universal time of day, where it differs from the local one; else empty."""
    if time < _FIRST_EPOCH or not _local(time).utcoffset():
        return ""
    return f"{datetime.fromtimestamp(time, UTC):%H:%M:%S} UTC"


def _local(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC).astimezone()


def share(value: float, whole: float, unit: str) -> str:
    """A part of a whole in one unit: `57.2 of 80 GiB`."""
    number, _, symbol = quantity(value, unit).rpartition(" ")
    most, _, of_symbol = quantity(whole, unit).rpartition(" ")
    same = symbol == of_symbol
    text = f"{number} of {most} {symbol}" if same else f"{number} {symbol} of {most} {of_symbol}"
    return text.replace(" ", _NO_BREAK)


def remarks(finding: Mapping[str, Any]) -> list[str]:
    """Words beside a finding, in the shape of its JSON: who is on it, the verdict, and what was
    done about its cause before.
    """
    said, review, told = finding.get("acknowledged"), finding.get("review"), []
    if said:
        told.append(f"{said['by']} is on it until {clock(said['until'])}: {said['reason']}")
    if review:
        word = "right" if review["right"] else "wrong"
        other = f", it was {review['cause']}" if review["cause"] and not review["right"] else ""
        told.append(f"{review['by']} says it was {word}{other}")
    return told + _tried(finding)


def _tried(finding: Mapping[str, Any]) -> list[str]:
    return [
        f"earlier for this cause: {one['action']} helped {one['helped']} of {one['times']} time(s),"
        f" last at {one['target']} on {clock(one['last_at'])}: {one['last'].replace('_', ' ')}"
        for one in finding.get("tried", ())
    ]


def confidence(value: float) -> str:
    """How sure we are, in words."""
    for least, words in ((0.9, "almost certain"), (0.75, "very likely"), (0.5, "likely")):
        if value >= least:
            return words
    return "a guess"


def plain(identifier: str) -> str:
    """`gpu-xid` as `GPU XID`, `pcie-degraded` as `PCIe degraded`."""
    words = identifier.removeprefix("gpudiag_").replace("-", " ").replace("_", " ").split()
    return " ".join(_SPELLED.get(word, word) for word in words)


def measure(metric: Metric) -> str:
    """`gpudiag_gpu_clock_hertz` as `GPU clock`: a value shown beside it has the unit."""
    name = metric.name.removesuffix("_total")
    return plain(name.removesuffix("_" + metric.unit) if metric.unit else name)


def subject(pairs: Mapping[str, str], indices: Mapping[str, str]) -> str:
    """Who is meant: `GPU 3`, `job llama, rank 3`; `indices` gives a GPU's number by its UUID."""
    if not pairs:
        return "this node"
    words = []
    for key, value in pairs.items():
        if key == "uuid" and value in indices:
            words.append(f"GPU {indices[value]}")
        else:
            words.append(value if key == "uuid" else f"{key} {value}")
    return ", ".join(words)


def fact(evidence: Mapping[str, Any]) -> Said:
    """Evidence, in the shape of a finding's JSON, as `GPU XID errors (XID 48)`, `1`, `0 in 24 h`.

    Labels that the subject does not say tell two series of a metric apart.
    """
    name, unit, value = evidence["name"], evidence["unit"], evidence["value"]
    metric = metrics().get(name)
    title = measure(metric) if metric else _SOURCES.get(name, plain(name))
    labels = ", ".join(
        f"{plain(key)} {text}" if text.isdecimal() else text
        for key, text in sorted(evidence["labels"].items())
        if key not in _OBVIOUS
    )
    return Said(
        title=f"{title} ({labels})" if labels else title,
        # JSON has no NaN: it arrives as null.
        value=quantity(math.nan if value is None else value, unit),
        expected=_in_unit(evidence["expected"], unit),
    )


def _in_unit(expected: str, unit: str) -> str:
    """`below 0.3` as `below 30 %`; anything but a bare number, or a limit of one, as it is."""
    found = _LIMIT.fullmatch(expected)
    return f"{found[1]}{quantity(float(found[2]), unit)}" if found else expected
