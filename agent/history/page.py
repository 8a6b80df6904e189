"""The diagnosis as one HTML file that needs nothing else: findings, their evidence as curves."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2
import numpy as np

from gpudiag.agent.exporters import words
from gpudiag.agent.history.diagnosing import Diagnosed, Question
from gpudiag.agent.history.noticed import utc
from gpudiag.agent.history.report import Episode, Untold, failed
from gpudiag.agent.history.traces import Trace

WIDTH, HEIGHT = 480.0, 72.0


def page(
    question: Question,
    found: Diagnosed,
    about: Sequence[str],
    told: Sequence[Episode],
    blind: Sequence[Untold],
    together: Sequence[str] = (),
) -> str:
    """The whole page; every text in it is escaped.

    `about` says what was there to be judged, `together` what the nodes say as one.
    """
    loader = jinja2.FunctionLoader(_source)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["utc"] = utc
    return environment.get_template("page.html").render(
        question=question,
        found=found,
        about=about,
        episodes=[_shown(episode, question) for episode in told],
        blind=blind,
        together=together,
        failed=failed(found),
        title="gpudiag diagnose",
    )


def _source(name: str) -> str:
    return files("gpudiag.agent.history").joinpath(name).read_text("utf-8")


def _shown(episode: Episode, question: Question) -> dict[str, Any]:
    span = question.end - question.start
    bars = [
        (
            100.0 * (raised - question.start) / span,
            max(0.4, 100.0 * ((question.end if ended is None else ended) - raised) / span),
        )
        for raised, ended in episode.times
    ]
    plain = episode.to_json()
    return {
        "episode": episode,
        "finding": plain,
        "bars": bars,
        "facts": [words.fact(fact) for fact in plain["evidence"]],
        "curves": [curve(trace, episode.times[0][0]) for trace in episode.traces],
    }


def curve(trace: Trace, raised: float) -> dict[str, Any]:
    """A curve as an SVG path in a box of `WIDTH` x `HEIGHT`, and where it fired."""
    times, values = np.array(trace.times), np.array(trace.values)
    low, high = float(values.min()), float(values.max())
    x = WIDTH * (times - times[0]) / max(float(times[-1] - times[0]), 1.0)
    y = HEIGHT * (1.0 - (values - low) / ((high - low) or 1.0))
    points = (f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))
    fired = WIDTH * (raised - trace.times[0]) / max(trace.times[-1] - trace.times[0], 1.0)
    name = ", ".join(f"{key}={value}" for key, value in sorted(trace.labels.items()))
    return {
        "path": "M" + " L".join(points),
        "fired": fired if 0.0 <= fired <= WIDTH else None,
        "metric": trace.metric,
        "labels": name,
        "low": f"{low:.6g}",
        "high": f"{high:.6g}",
        "from": trace.times[0],
        "to": trace.times[-1],
    }
