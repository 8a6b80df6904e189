"""What an examination of one cause finds: shared by rules that weigh several causes."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpudiag.agent.rules.contract import Evidence


@dataclass(frozen=True, slots=True)
class Blame:
    """A cause that its evidence bears out; `words` complete a sentence, `sure` is 0-1."""

    cause: str
    sure: float
    words: str
    evidence: list[Evidence] = field(default_factory=list)
    rank: str = ""
