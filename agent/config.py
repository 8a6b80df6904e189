"""The configuration: a typed YAML file whose errors name the key and the line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from gpudiag.agent import files, units
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.agent.rules.contract import Limits, Rule
from gpudiag.probes.errors import UsageError


class Duration(float):
    """Seconds, written with a unit."""


class Size(int):
    """Bytes, written with a unit."""


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the file: unknown keys are errors."""


class Node(_Section, frozen=True):
    """This node: its name (host name when empty), job, role and how many GPUs it should have."""

    name: str = ""
    job: str = ""
    role: Literal["node", "sidecar"] = "node"
    expected_gpus: Annotated[int, msgspec.Meta(ge=0, le=1024)] | None = None


class ProbeSettings(_Section, frozen=True):
    """One probe: whether it runs, and how often."""

    enabled: bool = True
    cadence: Duration | None = None


class RuleSettings(_Section, frozen=True):
    """One rule: thresholds, hold and clear over its defaults, or `disabled` with the reason."""

    disabled: str = ""
    hold: Duration | None = None
    clear: Duration | None = None
    thresholds: dict[str, str | float | int] = {}


class Actions(_Section, frozen=True):
    """What may follow a finding: `dry-run` writes what it would have done, `off` nothing."""

    mode: Literal["off", "dry-run"] = "dry-run"


class Otlp(_Section, frozen=True):
    """OTLP/HTTP export: off while `endpoint` is empty; headers may name a file with `@path`."""

    endpoint: str = ""
    interval: Duration = Duration(30.0)
    headers: dict[str, str] = {}


class Exporters(_Section, frozen=True):
    """Where figures go besides `/metrics`."""

    otlp: Otlp = Otlp()


class Channel(_Section, frozen=True):
    """Where training processes report: a Unix socket, for whom its group and `uids` admit."""

    enabled: bool = True
    socket: str = ""
    group: str = ""
    uids: tuple[int, ...] = ()


class Http(_Section, frozen=True):
    """The page, `/metrics` and the API: read-only, loopback unless told otherwise."""

    listen: str = "127.0.0.1:9440"


class Recording(_Section, frozen=True):
    """The black box around critical findings."""

    enabled: bool = True
    after: Duration = Duration(300.0)
    max_size: Size = Size(256 * 1024**2)


class Log(_Section, frozen=True):
    """The agent's own log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Config(_Section, frozen=True):
    """The whole file."""

    node: Node = Node()
    probes: dict[str, ProbeSettings] = {}
    rules: dict[str, RuleSettings] = {}
    actions: Actions = Actions()
    exporters: Exporters = Exporters()
    channel: Channel = Channel()
    http: Http = Http()
    recording: Recording = Recording()
    log: Log = Log()


PROBES = ("disks", "host", "infiniband", "kmsg", "network", "nvml", "processes")
MIN_CADENCE = 0.1


def load(path: Path) -> Config:
    """The configuration in `path`; raises `UsageError` naming file, line and key."""
    return parse(files.text(path, "the configuration"), str(path))


def parse(text: str, name: str) -> Config:
    """The configuration in `text`; `name` stands for the file in errors."""
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        plain = yaml.safe_load(text)
    # A number or date that is none, and nesting without end, are no errors of YAML's own kind.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(_broken(name, error)) from error
    try:
        config = msgspec.convert(plain or {}, Config, dec_hook=_with_unit)
        _check(config)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise UsageError(_located(name, tree, _named(plain, path.rstrip("`")), message)) from error
    except _Misplaced as error:
        raise UsageError(_located(name, tree, error.path, str(error))) from error
    return config


def rules_in_force(config: Config) -> tuple[dict[str, Rule], dict[str, Limits]]:
    """The rules that are not disabled, with hold, clear and thresholds as configured."""
    rules: dict[str, Rule] = {}
    limits: dict[str, Limits] = {}
    for symptom, rule in RULES.items():
        settings = config.rules.get(symptom, RuleSettings())
        if not settings.disabled:
            rules[symptom] = _retimed(rule, settings)
            limits[symptom] = {**default_limits(rule), **_overrides(symptom, rule, settings)}
    return rules, limits


class _Misplaced(Exception):
    """A value that is well-formed but wrong where it stands; `path` as msgspec writes it."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def _with_unit(kind: type, value: Any) -> Any:
    """Called by msgspec for `Duration` and `Size`: only text with a unit will do."""
    if kind is Duration:
        return Duration(_spelled(value, units.seconds))
    if kind is Size:
        return Size(_spelled(value, units.size))
    raise NotImplementedError(kind)


def _spelled(value: Any, read: Callable[[str], float]) -> float:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} has no unit: write it as 10s, 5m, 1h or 2GiB")
    try:
        return read(value)
    except UsageError as error:
        raise ValueError(str(error)) from error


def _retimed(rule: Rule, settings: RuleSettings) -> Rule:
    hold = rule.hold if settings.hold is None else settings.hold
    clear = rule.clear if settings.clear is None else settings.clear
    return replace(rule, hold=hold, clear=clear)


def _overrides(symptom: str, rule: Rule, settings: RuleSettings) -> dict[str, float]:
    return {
        name: _limit(f".rules.{symptom}.thresholds.{name}", rule.thresholds[name].unit, value)
        for name, value in settings.thresholds.items()
    }


def _limit(path: str, unit: str, value: str | float) -> float:
    """A threshold in its unit: seconds and bytes are spelled, all else is a plain number."""
    try:
        if unit in ("seconds", "bytes"):
            return _spelled(value, units.seconds if unit == "seconds" else units.size)
        number = float(value)
    except ValueError as error:
        raise _Misplaced(path, str(error)) from error
    if not math.isfinite(number):
        raise _Misplaced(path, f"{value} is no limit: write a number")
    return number


def _check(config: Config) -> None:
    for name, probe in config.probes.items():
        if name not in PROBES:
            raise _Misplaced(f".probes.{name}", f"no such probe; there are {', '.join(PROBES)}")
        if probe.cadence is not None and probe.cadence < MIN_CADENCE:
            raise _Misplaced(f".probes.{name}.cadence", "the shortest cadence is 100ms")
    for symptom, settings in config.rules.items():
        if symptom not in RULES:
            raise _Misplaced(f".rules.{symptom}", "no such rule; `gpudiag runbook` lists them")
        for name, value in settings.thresholds.items():
            path = f".rules.{symptom}.thresholds.{name}"
            known = RULES[symptom].thresholds
            if name not in known:
                raise _Misplaced(path, f"no such threshold; there are {', '.join(sorted(known))}")
            _limit(path, known[name].unit, value)


def _broken(name: str, error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    line = f":{mark.line + 1}" if mark else ""
    return f"{name}{line}: not valid YAML: {getattr(error, 'problem', None) or error}"


def _named(plain: Any, path: str) -> str:
    """msgspec writes `[...]` for any key of a mapping: find the first key that does not fit."""
    section, found, rest = path.partition("[...]")
    kind = {".probes": ProbeSettings, ".rules": RuleSettings}.get(section)
    if not found or kind is None:
        return path
    for key, value in plain[section[1:]].items():
        try:
            msgspec.convert(value, kind, dec_hook=_with_unit)
        except msgspec.ValidationError:
            return f"{section}.{key}{rest}"
    return path


def _located(name: str, tree: yaml.Node | None, path: str, message: str) -> str:
    """`file:line: key: message`, following the path down the YAML tree as far as it goes."""
    node, line, walked = tree, 1, []
    for part in path.replace("[...]", "").strip(".").split("."):
        if not isinstance(node, yaml.MappingNode):
            break
        here = {key.value: (key, value) for key, value in node.value}
        if part not in here:
            break
        key, node = here[part]
        line = key.start_mark.line + 1
        walked.append(part)
    unknown = re.search(r"unknown field `([^`]*)`", message)
    if unknown and isinstance(node, yaml.MappingNode):
        line = next(k.start_mark.line + 1 for k, _ in node.value if k.value == unknown[1])
    return f"{name}:{line}: {'.'.join(walked) or 'top level'}: {message}"
