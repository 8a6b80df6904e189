"""Gathers what a ticket about one finding needs; what cannot be had is said, never left silent."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from gpudiag.agent import kept_samples
from gpudiag.agent.bundling import recordings, state
from gpudiag.agent.bundling.pack import Pack
from gpudiag.agent.bundling.redact import Redactor
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.recording.expectations import Expect, Expectations
from gpudiag.probes.errors import GpudiagError

REPORT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are: the agent's `state` folder, and its `view` where one answers."""

    state: Path
    now: float
    redactor: Redactor
    ask: Callable[[str], list[dict[str, Any]]]


def found(place: Place, name: str) -> tuple[Finding | None, str]:
    """The finding, of the running agent or else of the state folder, and why not from the first."""
    why = ""
    try:
        listed = [f for f in place.ask("findings") if f["id"] == name and f["state"] != "pending"]
        if listed:
            newest = max(listed, key=lambda f: f["raised_at"])
            del newest["id"], newest["runbook"]
            newest["subject"] = list(newest["subject"].items())
            return msgspec.convert(newest, Finding), ""
    except (GpudiagError, msgspec.ValidationError) as error:
        why = str(error)
    try:
        return state.finding(place.state, name, place.now), why
    except GpudiagError as error:
        return None, f"{why}; {error}" if why else str(error)


def gather(pack: Pack, place: Place, finding: Finding) -> None:
    """Everything but doctor and configuration, the most telling first."""
    clean = place.redactor.plain
    pack.plain("finding.json", clean(finding.to_json()))
    pack.trying("incident.yaml", lambda: _incident(pack, place, finding))
    pack.trying("audit.json", lambda: _audit(pack, place, finding))
    for name in ("captures", "probes", "actions"):
        pack.trying(f"{name}.json", partial(_asked, pack, place, name))
    held = state.snapshots(place.state)
    pack.plain("snapshots.json", clean(held))
    pack.trying("leak-report.json", lambda: _leaks(pack, place, finding, held))
    pack.trying("recording", lambda: _recording(pack, place, finding))


def _incident(pack: Pack, place: Place, finding: Finding) -> None:
    span = kept_samples.span_of(finding, place.now)
    with tempfile.TemporaryDirectory() as scratch:
        window = state.window(place.state, Path(scratch), place.now)
        kept = kept_samples.of_window(window, finding, span)
        window.close()
    kept = kept_samples.best(kept, place.state / "recordings", finding)
    plain = msgspec.structs.replace(finding, summary=place.redactor.text(finding.summary))
    wanted = Expectations((Expect(finding.symptom, (finding.cause,), dict(finding.subject)),))
    kept = recordings.cleaned(kept, place.redactor)
    text = kept_samples.incident_text(plain, span, kept, "From a bundle.", wanted)
    pack.put("incident.yaml", text.encode())


def _asked(pack: Pack, place: Place, what: str) -> None:
    pack.plain(f"{what}.json", place.redactor.plain(place.ask(what)))


def _recording(pack: Pack, place: Place, finding: Finding) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "recording"
        folder = place.state / "recordings"
        recordings.redacted(folder, finding, place.redactor, target, pack.max_bytes)
        for file in sorted(p for p in target.iterdir() if p.is_file()):
            pack.put(f"recording/{file.name}", file.read_bytes())


def _audit(pack: Pack, place: Place, finding: Finding) -> None:
    lines = state.audit(place.state, finding.id)
    for line in lines:
        args = line["plan"].get("args", {})
        line["plan"]["args"] = {k: v if not isinstance(v, str) else "" for k, v in args.items()}
    if not lines:
        raise GpudiagError("no action was decided on for this finding")
    pack.plain("audit.json", place.redactor.plain(lines))


def _leaks(pack: Pack, place: Place, finding: Finding, held: list[dict[str, Any]]) -> None:
    job = dict(finding.subject).get("job", "")
    safe = re.escape("".join(c if c.isalnum() or c in "-_" else "_" for c in job)[:60])
    names = [m for h in held if (m := re.fullmatch(rf"({safe}-rank\d+-\d+)-\d+\.\w+", h["name"]))]
    if not job or not names:
        raise GpudiagError("no memory snapshot of its job is kept")
    files = [str(place.state / "snapshots" / m[0]) for m in names if m[1] == names[-1][1]]
    command = [sys.executable, "-m", "gpudiag.agent", "leak-report", "--json", *files]
    try:
        done = subprocess.run(command, capture_output=True, timeout=REPORT_SECONDS, check=False)
        pack.plain("leak-report.json", place.redactor.plain(msgspec.json.decode(done.stdout)))
    except (subprocess.TimeoutExpired, msgspec.MsgspecError) as error:
        raise GpudiagError(f"leak-report of {', '.join(files)} gave nothing: {error}") from error
