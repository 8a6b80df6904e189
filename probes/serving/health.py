"""What a server says of itself beside its page: whether it is ready, and has its model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpudiag.probes import Sample, labels
from gpudiag.probes.serving.asking import Asking, in_path
from gpudiag.probes.serving.canary_fetch import Unanswered
from gpudiag.probes.serving.engines import Engine

ABSENT = frozenset({401, 403, 404, 405, 501})
"""Nobody there who would tell, or not to us: no word on the server's health."""

MOST_MODELS = 8


@dataclass(frozen=True, slots=True)
class Health:
    """`ready` and `engine_up` are None where it cannot be told; `words` say what was answered."""

    ready: bool | None = None
    engine_up: bool | None = None
    words: str = ""

    def samples(self, server: str, now: float) -> Iterator[Sample]:
        """Those of the figures that are known."""
        name = labels(server=server)
        if self.ready is not None:
            yield Sample("gpudiag_serving_ready", name, now, float(self.ready))
        if self.engine_up is not None:
            yield Sample("gpudiag_serving_engine_up", name, now, float(self.engine_up))


def health(engine: Engine | None, path: str, asking: Asking) -> Health:
    """Ask the kind's endpoint, or `path` where one is configured."""
    path = path or (engine.health if engine else "")
    if not path:
        return Health()
    dead = engine.dead if engine else 0
    try:
        if engine and engine.ready:
            body = asking.json(path)
            word = str(body.get("status", "")) if isinstance(body, dict) else ""
            return Health(word == engine.ready, words=f"{path} says {word[:80]!r}")
        asking.get(path)
    except Unanswered as error:
        # A full queue is no illness: restarting a busy server for it is the known mistake.
        if error.outcome == "busy" or error.status in ABSENT:
            return Health(words=f"{path}: {error}")
        gone = bool(dead) and error.status == dead
        return Health(False, False if gone else None, f"{path}: {error}")
    return Health(True, True if dead else None, f"{path} answers well")


def models(
    engine: Engine | None, server: str, names: Iterable[str], now: float, asking: Asking
) -> Iterator[Sample]:
    """Whether models are loaded, where the kind of server has an endpoint that tells."""
    if engine is None or not engine.models:
        return
    if "{model}" not in engine.models:
        loaded = _listed(engine.models, asking)
        if loaded is not None:
            of = labels(server=server)
            yield Sample("gpudiag_serving_model_loaded", of, now, float(loaded))
        return
    for name in sorted(set(names))[:MOST_MODELS]:
        loaded = _answers(engine.models.format(model=in_path(name)), asking)
        if loaded is not None:
            of = labels(server=server, model=name)
            yield Sample("gpudiag_serving_model_loaded", of, now, float(loaded))


def _listed(path: str, asking: Asking) -> bool | None:
    try:
        told = asking.json(path)
    except Unanswered:
        return None
    listed = told.get("data") if isinstance(told, dict) else None
    return bool(listed) if isinstance(listed, list) else None


def _answers(path: str, asking: Asking) -> bool | None:
    try:
        asking.get(path)
    except Unanswered as error:
        # Triton says 400 of a model that it knows and that is not ready.
        return False if error.status in (400, 503) else None
    return True
