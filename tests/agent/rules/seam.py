"""One rule's opinion of a few series and events: what the tests of the rules stand on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpudiag.agent.recording import notation
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.agent.rules.contract import Diagnosis, Verdict
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample


def judge(
    symptom: str,
    series: Mapping[str, str],
    lines: Iterable[tuple[float, str]] = (),
    *,
    every: float = 10.0,
    now: float | None = None,
) -> list[Verdict]:
    """What the rule says at the end (or at `now`) of series in promtool's notation.

    `lines` are kernel lines with their times.
    """
    rule = RULES[symptom]
    window = Window(rule.reads | rule.trends, trends=rule.trends)
    samples = [
        Sample(*notation.series(name), row * every, value)
        for name, text in series.items()
        for row, value in enumerate(notation.values(text, notation.MAX_SAMPLES))
        if value is not None
    ]
    events = [Event(time, "kmsg", line) for time, line in lines]
    end = max([s.time for s in samples] + [e.time for e in events])
    window.now = end if now is None else now
    window.add(sorted(samples, key=lambda s: s.time), events)
    return list(rule.check(window, default_limits(rule)))


def diagnoses(said: Iterable[Verdict]) -> dict[str, Diagnosis]:
    """The findings among verdicts, by the value of their subject's first key."""
    found = [v for v in said if isinstance(v, Diagnosis)]
    return {v.subject[0][1] if v.subject else "": v for v in found}
