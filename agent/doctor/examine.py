"""The whole examination: look once, then say what was seen, area by area."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpudiag.agent import config as configuration
from gpudiag.agent import probing
from gpudiag.agent.clock import Clock
from gpudiag.agent.config import Config
from gpudiag.agent.doctor import driver, environment, gpus, host, kernel, network, rights
from gpudiag.agent.doctor.look import Look, Observe, look
from gpudiag.agent.doctor.report import Line
from gpudiag.agent.doctor.rights import Process
from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.inventory import Inventory
from gpudiag.agent.rules.contract import Rule, Unknown
from gpudiag.probes import Probe
from gpudiag.probes.disks import local_space


@dataclass(frozen=True, slots=True)
class Examination:
    """What doctor found in `seconds`; `nothing`: no probe at all gave a reading."""

    seconds: float
    lines: Sequence[Line]
    findings: Sequence[Finding]
    nothing: bool

    def to_json(self) -> dict[str, Any]:
        """`{"lines": [...], "findings": [...]}`, findings in the shape of the API."""
        return {
            "lines": [asdict(line) for line in self.lines],
            "findings": [finding.to_json() for finding in self.findings],
        }


def examine_here(path: Path | None, *, seconds: float, deadline: float) -> Examination:
    """Examine this machine as this process sees it, by the configuration at `path`, if any."""
    config = configuration.load(path) if path else Config()
    # The rules run once, at the end: the kernel's log need not wait for the GPUs' addresses.
    inventory = Inventory(patience=0.0)
    return examine(
        config,
        probing.build(config, inventory),
        Process(os.environ, os.geteuid()),
        observe=inventory.observe,
        seconds=seconds,
        deadline=deadline,
    )


def examine(
    config: Config,
    probes: Sequence[Probe],
    process: Process,
    *,
    observe: Observe,
    seconds: float,
    deadline: float,
    sys: Path = Path("/sys"),
) -> Examination:
    """Run the probes for `seconds` (up to `deadline` for a slow one) and tell what they gave."""
    rules, limits = configuration.rules_in_force(config)
    engine = Engine(rules, limits, window_for(rules), Book(rules))
    seen = look(probes, engine, Clock(), observe=observe, seconds=seconds, deadline=deadline)
    told = [
        *driver.lines(seen, driver.pci_gpus(sys)),
        *gpus.lines(seen),
        *kernel.lines(seen),
        *host.lines(seen, local_space(str(process.dev / "shm"))),
        *network.lines(seen),
        *environment.lines(process.environ),
        *rights.lines(seen, process),
        *_young(seen.findings, rules),
        *_open(seen.unknown),
    ]
    return Examination(seen.seconds, told, seen.findings, _nothing(seen))


def _nothing(seen: Look) -> bool:
    return not any(status.last_success for status in seen.statuses.values())


def _young(findings: Iterable[Finding], rules: Mapping[str, Rule]) -> list[Line]:
    """What the rules see and one look is too short to call lasting."""
    return [
        Line(
            "rules",
            finding.id,
            "note",
            f"{finding.summary} A finding once it lasts {rules[finding.symptom].hold:.0f} s.",
            f"gpudiag runbook '{finding.runbook}'",
        )
        for finding in findings
        if finding.state == "pending"
    ]


def _open(unknown: Mapping[str, Iterable[Unknown]]) -> list[Line]:
    """What the rules could not tell, with what would settle it."""
    found = []
    for symptom, said in sorted(unknown.items()):
        missing = dict.fromkeys(need for one in said for need in one.missing)
        if missing:
            found.append(Line("rules", symptom, "unknown", f"needs {'; '.join(missing)}"))
    return found
