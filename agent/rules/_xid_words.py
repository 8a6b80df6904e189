"""An XID in words: the sentence, the evidence and the codes that lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpudiag.agent.rules._xid_ruling import Ruling, apart
from gpudiag.agent.rules._xids import COUNTER, Sighting
from gpudiag.agent.rules.contract import Evidence, Rival, Subject
from gpudiag.probes.catalog import RecoveryAction, xids


@dataclass(frozen=True, slots=True)
class Case:
    """One GPU's burst of XIDs: the cause, what came beside it, and what is known around it.

    `day` are the sightings of the cause's code on this GPU in 24 h; `elsewhere` the XID of
    another GPU that explains this one, with that GPU's name.
    """

    name: str
    where: Subject
    root: Sighting
    ruling: Ruling
    beside: Sequence[Sighting]
    day: Sequence[Sighting]
    verdict: RecoveryAction | None = None
    suspect: bool = False
    elsewhere: tuple[int, str] | None = None

    @property
    def consequence(self) -> bool:
        """Whether the code only ever follows from something else."""
        return self.ruling.fault == "consequence" or self.elsewhere is not None


def summary_of(case: Case) -> str:
    """One sentence or two for whoever was woken."""
    code, said = case.root.code, case.ruling
    if not said.known:
        return (
            f"{case.name} reported XID {code}, which the catalogue does not know;"
            " nothing is concluded from it."
        )
    text = f"{case.name} reported XID {code}{_times(case)}: {_lower(said.meaning)}{_process(case)}."
    return " ".join([text, *_more(case)])


def _more(case: Case) -> list[str]:
    found = []
    if case.elsewhere:
        found.append(f"It follows from XID {case.elsewhere[0]} on {case.elsewhere[1]}.")
    elif case.ruling.fault == "consequence" and case.root.code in (43, 45):
        found.append("By itself it means that a job ended or was killed: nothing to do.")
    others = sorted({s.code for s in case.beside if s.code != case.root.code})
    if others:
        found.append(f"Beside it: XID {', '.join(map(str, others))}.")
    if case.suspect:
        found.append("It keeps coming back on this GPU, which points at the hardware.")
    elif case.ruling.fault == "app":
        found.append("Usually the application's own fault.")
    if case.verdict and case.verdict.action != "none":
        found.append(f"The driver's verdict: {_lower(case.verdict.meaning)}.")
    return found


def evidence_of(case: Case) -> tuple[Evidence, ...]:
    """The line, the count over a day, and the codes that came along."""
    found = [
        Evidence(
            COUNTER,
            float(sum(s.number for s in case.day)),
            expected="0 in 24 h",
            labels={**dict(case.where), "xid": str(case.root.code)},
        )
    ]
    if case.root.line:
        found.insert(0, Evidence("kmsg", case.root.line))
    for code, count in sorted(_counts(case).items()):
        found.append(Evidence(COUNTER, float(count), labels={"xid": str(code)}))
    return tuple(found)


def rivals_of(case: Case) -> tuple[Rival, ...]:
    """The other codes of the burst, and why each is not the cause."""
    return tuple(Rival(f"xid-{code}", _why_not(case, code)) for code in sorted(_counts(case)))


def _counts(case: Case) -> Counter[int]:
    counts: Counter[int] = Counter()
    for sighting in case.beside:
        if sighting.code != case.root.code:
            counts[sighting.code] += sighting.number
    return counts


def _why_not(case: Case, code: int) -> str:
    xid = xids().get(code)
    if xid is None:
        return "not in the catalogue: nothing may be concluded from it"
    if case.root.code in xid.consequence_of:
        return f"a known consequence of XID {case.root.code}"
    return f"came in the same burst and is the lesser fault: {_lower(xid.meaning)}"


def _times(case: Case) -> str:
    times = len(apart(case.day))
    return f" {times} times in 24 h" if times > 1 else ""


def _process(case: Case) -> str:
    if case.root.pid is None:
        return ""
    process = f"{case.root.process}, " if case.root.process else ""
    return f" (process {process}pid {case.root.pid})"


def _lower(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
