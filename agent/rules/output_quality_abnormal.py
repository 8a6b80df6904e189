"""The answers are not what the model should give: the canary differs, or values are no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules import _answers, _serving
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Window
from gpudiag.probes import Event

QUANTIZED, INCOMPLETE, CORRUPT = (
    "quantization-unsuitable",
    "weights-incomplete",
    "numeric-corruption",
)


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every server that is asked a canary, or that counts numbers that are none."""
    found = _serving.servers(
        window, (_answers.SIMILAR, _serving.CANARY, _answers.NONFINITE, *_serving.SIGNS_OF_LIFE)
    )
    bad = {server: _answers.canary(window, limits, server) for server in found}
    for server in found:
        said = _judge(window, limits, server, bad, alone=len(found) == 1)
        if said is not None:
            yield said
        elif any(
            _serving.value(window, m, server) is not None
            for m in (_answers.SIMILAR, _answers.NONFINITE)
        ):
            yield Healthy(server.who)


def _judge(
    window: Window,
    limits: Limits,
    server: Server,
    bad: dict[Server, _answers.Canary | None],
    *,
    alone: bool,
) -> Diagnosis | None:
    canary = bad[server]
    rose = _answers.nonfinite(window, limits, server)
    lines = _answers.lines(window, server, limits["remember"], alone=alone)
    weights = [e for e in lines if _answers.WEIGHTS.search(e.line)]
    numbers = [e for e in lines if _answers.NUMBERS.search(e.line)]
    if canary is None:
        return _unasked(window, server, rose, numbers, weights)
    if canary.metric == _serving.CANARY and not (
        rose or lines or _answers.quantized(window, server)
    ):
        # That a request fails says nothing of its answer: another rule tells of it.
        return None
    if weights:
        return _of(server, canary, INCOMPLETE, 0.9, weights[-1].line, weights)
    if rose or numbers:
        return _numbers(server, canary, rose, numbers)
    return _without_words(window, server, canary, bad)


def _unasked(
    window: Window, server: Server, rose: float, numbers: list[Event], weights: list[Event]
) -> Diagnosis | None:
    """Without a canary that differs: counted values, or words where no canary is asked."""
    asked = _answers.asked(window, server)
    if rose or (len(numbers) > 1 and not asked):
        return _numbers(server, None, rose, numbers)
    if weights and not asked and not _answers.only_a_head(weights):
        return _of(server, None, INCOMPLETE, 0.65, weights[-1].line, weights, _ASK)
    return None


def _without_words(
    window: Window,
    server: Server,
    canary: _answers.Canary,
    bad: dict[Server, _answers.Canary | None],
) -> Diagnosis:
    """What the canary alone tells: who else is well, and whether it began in mid-run."""
    how = _answers.quantized(window, server)
    plain = [
        s
        for s in bad
        if s != server and _answers.asked(window, s) and not _answers.quantized(window, s)
    ]
    well = [s for s in plain if bad[s] is None]
    mid_run = canary.usual is not None and not _answers.restarted(window, server, canary.since)
    if how and well:
        words = f"its {how} copy differs while {well[0].name}, not quantised, answers as ever"
        return _of(server, canary, QUANTIZED, 0.65 if mid_run else 0.88, words)
    if mid_run:
        words = "it was well and became bad while it ran, with the same weights"
        return _of(server, canary, CORRUPT, 0.7, words)
    if how and not plain:
        words = f"it has differed since it was started, quantised as {how}"
        return _of(server, canary, QUANTIZED, 0.65, words, (), _PEER)
    return _of(server, canary, UNDETERMINED, 0.5, "what changed was not seen", (), _OPEN)


def _numbers(
    server: Server, canary: _answers.Canary | None, rose: float, lines: list[Event]
) -> Diagnosis:
    words = f"{rose:.0f} outputs held values that are not finite" if rose else lines[-1].line
    said = _of(server, canary, CORRUPT, 0.92 if rose or canary else 0.75, words, lines)
    if not rose:
        return said
    return Diagnosis(
        said.subject,
        said.cause,
        said.confidence,
        said.summary,
        (Evidence(_answers.NONFINITE, rose, "outputs", "0"), *said.evidence),
        said.rivals,
        said.missing,
        said.actions,
        since=said.since,
    )


def _of(
    server: Server,
    canary: _answers.Canary | None,
    cause: str,
    confidence: float,
    words: str,
    lines: list[Event] | tuple[()] = (),
    missing: tuple[str, ...] = (),
) -> Diagnosis:
    state, facts = "", tuple(Evidence(e.source, e.line) for e in lines[-3:])
    if canary is not None:
        usual = 1.0 if canary.usual is None else canary.usual
        was = "where 1 is its baseline" if canary.usual is None else f"{canary.usual:.2f} before"
        state = f"its canary's likeness is {canary.now:.2f}, {was}; "
        facts = (Evidence(canary.metric, canary.now, "ratio", f"{usual:.2f}"), *facts)
    return Diagnosis(
        server.who,
        cause,
        confidence,
        f"{server.title}: {state}{words}.",
        facts,
        rivals=tuple(Rival(c, why) for c, why in _WHY_NOT.items() if c != cause),
        missing=missing,
        actions=_ACTIONS[cause],
        since=canary.since if canary is not None else (lines[0].time if lines else None),
    )


_ASK = ("a canary request: whether the answers differ at all",)
_PEER = ("the same canary against a copy that is not quantised",)
_OPEN = (
    "the same canary against another copy of the model, not quantised",
    "the digests of the weights beside those of their manifest",
    f"{_answers.NONFINITE} (vLLM: VLLM_COMPUTE_NANS_IN_LOGITS=1)",
)
_WHY_NOT = {
    QUANTIZED: "no copy that is not quantised is seen to answer better since the start",
    INCOMPLETE: "no line tells of weights that are missing or differ",
    CORRUPT: "no value that is not finite, and no change in mid-run",
}
_DRAIN = Suggestion("drain", "Take the server out of the load balancer: its answers are wrong.")
_ACTIONS = {
    QUANTIZED: (_DRAIN, Suggestion("degrade", "Serve the copy that is not quantised meanwhile.")),
    INCOMPLETE: (
        _DRAIN,
        Suggestion("restart", "Fetch the weights again, compare their digests, and restart."),
    ),
    CORRUPT: (
        _DRAIN,
        Suggestion("restart", "Restart: it clears until the kernel at fault is met again."),
        Suggestion("notify", "Look for XIDs and ECC errors; try another attention backend."),
    ),
    UNDETERMINED: (_DRAIN, Suggestion("observe", "Ask the same of another copy of the model.")),
}

RULE = Rule(
    check=check,
    reads=frozenset(
        {
            _answers.SIMILAR,
            _serving.CONFIG,
            _answers.NONFINITE,
            _serving.CANARY,
            _serving.READY,
            _serving.UP,
        }
    ),
    events=frozenset({"serving", "agent"}),
    hold=0.0,
    clear=300.0,
    thresholds={
        "alike": Threshold(0.97, "ratio", "as like as two runs of one model on other hardware"),
        "fell": Threshold(0.05, "ratio", "below its own best; kernels differ by some thousandths"),
        "useless": Threshold(0.8, "ratio", "likeness below which no measure calls it the same"),
        "lasting": Threshold(60.0, "seconds", "one odd answer is sampling, or a reload"),
        "nonfinite": Threshold(3.0, "outputs", "a single one may be a request's own numbers"),
        "remember": Threshold(1800.0, "seconds", "how long a line or a count speaks of now"),
    },
)
