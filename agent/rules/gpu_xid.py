"""The driver reported an XID error: the GPU, its link or an application faulted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudiag.agent.rules._gpus import addressed, gpu, known, title
from gpudiag.agent.rules._xid_advice import ADVICE, APPLICATION, LASTING, SUSPECT_HARDWARE
from gpudiag.agent.rules._xid_ruling import (
    ruling,
    same_link,
    suspects_hardware,
    with_verdict,
)
from gpudiag.agent.rules._xid_words import Case, evidence_of, rivals_of, summary_of
from gpudiag.agent.rules._xids import (
    READS,
    RECOVERY_CHANGED,
    VERDICT,
    Log,
    Sighting,
    read,
    recovered,
)
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Healthy,
    Limits,
    Rule,
    Subject,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Window
from gpudiag.probes.catalog import RecoveryAction, gravity, recovery_actions, xids
from gpudiag.probes.catalog.xid import burst_seconds, explain_burst, recovery_of

# What a fault of one GPU makes its peers report; other codes speak of their own GPU alone.
_SPREADS = frozenset({43, 45, 74})
_LINES_OUT_OF_ORDER = 5.0


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU of which an XID was told, by kernel line or by counter."""
    log = read(window, limits["lasting"])
    if not log.seen and not log.resets:
        return
    gpus = known(window)
    names = {gpu(uuid): title({"uuid": uuid, **labels}) for uuid, labels in gpus.items()}
    for where in log.seen:
        active = _active(window, log, where, limits)
        if not active:
            yield Healthy(where)
            continue
        case = _case(window, log, where, active, names)
        # A consequence may be printed before its cause: wait for it a moment.
        if not case.consequence or window.now - case.root.time >= limits["settle"]:
            yield _diagnosis(case)
    for where in names.keys() - log.seen.keys():
        if () in log.resets or where in log.resets:
            yield Healthy(where)


def _active(window: Window, log: Log, where: Subject, limits: Limits) -> list[Sighting]:
    since = recovered(window, log, where)
    seen = [s for s in log.seen[where] if s.time > since]
    last = {s.code: s.time for s in seen}
    return [s for s in seen if window.now - last[s.code] < _keeps(s, limits)]


def _keeps(sighting: Sighting, limits: Limits) -> float:
    said = ruling(sighting)
    lasts = said.action in LASTING and said.fault != "app"
    return limits["lasting" if lasts else "passing"]


def _case(
    window: Window,
    log: Log,
    where: Subject,
    active: Sequence[Sighting],
    names: dict[Subject, str],
) -> Case:
    day = log.seen[where]
    root, beside = max((_root(b) for b in _bursts(active)), key=_gravity)
    mine = [s for s in day if s.code == root.code]
    others = [w for w in log.seen if w != where]
    elsewhere = any(s.code == root.code for w in others for s in log.seen[w])
    suspect = suspects_hardware(root.code, mine, elsewhere)
    verdict = _verdict(window, where, [root, *beside])
    said = with_verdict(ruling(root, same_link(root, mine)), verdict)
    return Case(
        name=_name(where, names),
        where=where,
        root=root,
        ruling=said,
        beside=beside,
        day=mine,
        verdict=verdict,
        suspect=suspect,
        elsewhere=_peer_cause(log, root, others, names),
    )


def _bursts(seen: Sequence[Sighting]) -> Iterator[list[Sighting]]:
    burst: list[Sighting] = []
    for sighting in seen:
        if burst and sighting.time - burst[-1].time > burst_seconds():
            yield burst
            burst = []
        burst.append(sighting)
    yield burst


def _root(burst: Sequence[Sighting]) -> tuple[Sighting, list[Sighting]]:
    code = explain_burst(s.code for s in burst).causes[0]
    root = next(s for s in burst if s.code == code)
    return root, [s for s in burst if s is not root]


def _gravity(found: tuple[Sighting, list[Sighting]]) -> tuple[int, float]:
    return gravity(ruling(found[0]).severity), found[0].time


def _verdict(window: Window, where: Subject, burst: Sequence[Sighting]) -> RecoveryAction | None:
    told = [s for s in burst if s.code == RECOVERY_CHANGED]
    asked = window.value(VERDICT, **dict(where))
    if asked:
        return recovery_actions().get(int(asked))
    return recovery_of(max(told).detail) if told else None


def _peer_cause(
    log: Log, root: Sighting, others: Sequence[Subject], names: dict[Subject, str]
) -> tuple[int, str] | None:
    if root.code not in _SPREADS:
        return None
    # 43 explains 45 on its own GPU only: it is a consequence as well.
    causes = [c for c in xids()[root.code].consequence_of if xids()[c].fault != "consequence"]
    for where in others:
        for s in log.seen[where]:
            ago = root.time - s.time
            if s.code in causes and -_LINES_OUT_OF_ORDER <= ago <= burst_seconds():
                return s.code, _name(where, names)
    return None


def _name(where: Subject, names: dict[Subject, str]) -> str:
    return names.get(where) or f"The GPU at {dict(where).get('device', 'an unknown address')}"


def _diagnosis(case: Case) -> Diagnosis:
    code = f"xid-{case.root.code}" if case.ruling.known else "unknown-code"
    return Diagnosis(
        subject=case.where,
        cause=code,
        confidence=_confidence(case),
        summary=summary_of(case),
        evidence=evidence_of(case),
        rivals=rivals_of(case),
        missing=() if case.ruling.known else ("what NVIDIA's newest catalogue says of this code",),
        actions=_actions(case),
        severity="info" if case.elsewhere else case.ruling.severity,
        since=min(s.time for s in (case.root, *case.beside)),
    )


def _actions(case: Case) -> tuple[Suggestion, ...]:
    if case.elsewhere:
        return ()
    if case.suspect:
        return (SUSPECT_HARDWARE,)
    if case.ruling.fault == "app" and case.ruling.action in ("restart_app", "check_app"):
        return (APPLICATION,)
    steps = addressed(ADVICE[case.ruling.action], dict(case.where).get("uuid", ""))
    # The catalogue's remark is about the code alone: the driver's own verdict goes before it.
    remark = case.ruling.note if steps and case.verdict is None else ""
    return (*steps, Suggestion("observe", remark)) if remark else steps


def _confidence(case: Case) -> float:
    if not case.ruling.known:
        return 0.5
    sure = 0.95 if case.root.line else 0.85
    if case.ruling.fault in ("app", "consequence") and not case.suspect:
        sure -= 0.15
    return sure - 0.1 if case.root.guessed else sure


RULE = Rule(
    check=check,
    reads=READS,
    events=frozenset({"kmsg", "nvml"}),
    thresholds={
        "lasting": Threshold(
            86400.0,
            "seconds",
            "a fault that needs a reset or reboot stays until then; 24 h at most",
        ),
        "passing": Threshold(
            600.0, "seconds", "an application's fault is over when it has not come back for 10 min"
        ),
        "settle": Threshold(
            10.0, "seconds", "45 and 43 are consequences; their cause may be printed after them"
        ),
    },
)
