"""Reading the configuration: errors name the file, the line and the key."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gpudiag.agent import files, units
from gpudiag.agent.config import canary, kubernetes, serving
from gpudiag.agent.config.base import Duration, Size
from gpudiag.agent.config.sections import PROBES, Config, RuleSettings
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.agent.rules.contract import Limits, Rule
from gpudiag.probes.errors import UsageError

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


def needing_restart(old: Config, new: Config) -> list[str]:
    """Sections that differ and are read at the start only: all but `rules`."""
    sections = [name for name in Config.__struct_fields__ if name != "rules"]
    return [name for name in sections if getattr(old, name) != getattr(new, name)]


class _Misplaced(Exception):
    """A value that is well-formed but wrong where it stands; `path` as msgspec writes it."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def _with_unit(kind: type, value: Any) -> Any:
    """Called by msgspec for `Duration` and `Size`: only text with a unit will do."""
    return kind(_spelled(value, _UNITS[kind]))


_UNITS: dict[type, Callable[[str], float]] = {Duration: units.seconds, Size: units.size}


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
    for name in PROBES:
        cadence = config.probes.of(name).cadence
        if cadence is not None and cadence < MIN_CADENCE:
            raise _Misplaced(f".probes.{name}.cadence", "the shortest cadence is 100ms")
    if why := canary.fault(config.probes.canary):
        raise _Misplaced(".probes.canary.servers", why)
    if why := serving.fault(config.probes.serving):
        raise _Misplaced(".probes.serving.servers", why)
    if why := kubernetes.fault(config.kubernetes, config.actions, config.node.role):
        raise _Misplaced(".kubernetes.use", why)
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
    if not found or section != ".rules":
        return path
    for key, value in plain["rules"].items():
        try:
            msgspec.convert(value, RuleSettings, dec_hook=_with_unit)
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
