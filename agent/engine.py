"""Samples and events in, changed findings out: the same code live and in replay."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set

from gpudiag.agent.findings.book import Book
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import Limits, Rule, Unknown, Verdict
from gpudiag.agent.translate import Translator
from gpudiag.agent.window import Window
from gpudiag.agent.window.archive import Archive
from gpudiag.probes import Event, Sample

log = logging.getLogger(__name__)

JOB_ENDED = "job_ended"
"""The type of the event by which a job's clean end becomes known; its field `job` names it."""


def window_for(rules: Mapping[str, Rule], archive: Archive | None = None) -> Window:
    """A window that keeps the history these rules read, on disk where there is an archive."""
    reads = {metric for rule in rules.values() for metric in rule.reads}
    trends = {metric for rule in rules.values() for metric in rule.trends}
    return Window(reads | trends, trends=trends, archive=archive)


class Engine:
    """Runs the rules over the window and keeps the book of findings. One thread drives it."""

    def __init__(
        self, rules: Mapping[str, Rule], limits: Mapping[str, Limits], window: Window, book: Book
    ) -> None:
        """`limits` holds the thresholds in force for every rule of `rules`."""
        self.window = window
        self.book = book
        self._rules = rules
        self._limits = limits
        self._by_source = _subscriptions(rules)
        self._failed: set[str] = set()
        self._ended: list[str] = []
        self._translator = Translator()

    def reconfigure(
        self, now: float, rules: Mapping[str, Rule], limits: Mapping[str, Limits]
    ) -> list[Finding]:
        """Go on with other rules and thresholds; gives the findings that end with their rule."""
        self._rules = rules
        self._limits = limits
        self._by_source = _subscriptions(rules)
        return self.book.reconfigure(now, rules)

    def ingest(self, samples: Iterable[Sample], events: Iterable[Event] = ()) -> frozenset[str]:
        """Take one batch; gives the symptoms whose rules want to run at once for its events."""
        events = list(events)
        self._ended += [e.fields.get("job", "") for e in events if e.type == JOB_ENDED]
        self.window.add(self._translator.samples(samples), events)
        wanted: frozenset[str] = frozenset()
        for source in {event.source.partition(":")[0] for event in events}:
            wanted |= self._by_source.get(source, frozenset())
        return wanted

    def evaluate(self, now: float, only: Set[str] | None = None) -> list[Finding]:
        """Run all rules, or `only` some, as of `now`; gives the findings that changed."""
        self.window.now = now
        # In the registry's order: a set's would change from run to run, and folds with it.
        symptoms = [symptom for symptom in self._rules if only is None or symptom in only]
        ended, self._ended = {("job", job) for job in self._ended}, []
        over = self.book.end(now, lambda subject: bool(ended & {*subject}), "ended")
        return over + self.book.update(now, {symptom: self._run(symptom) for symptom in symptoms})

    def rebase(self, seconds: float) -> None:
        """The clock jumped by `seconds`: move what is remembered along with it."""
        self.window.rebase(seconds)
        self.book.rebase(seconds)

    def _run(self, symptom: str) -> list[Verdict]:
        try:
            return list(self._rules[symptom].check(self.window, self._limits[symptom]))
        except Exception:
            # A rule's mistake must cost its own verdict only, and be seen, once.
            if symptom not in self._failed:
                self._failed.add(symptom)
                log.exception("rule %s failed; it says 'cannot tell' until mended", symptom)
            return [Unknown((), (f"rule {symptom} failed, see the agent's log",))]


def _subscriptions(rules: Mapping[str, Rule]) -> dict[str, frozenset[str]]:
    sources = {source for rule in rules.values() for source in rule.events}
    return {s: frozenset(name for name, rule in rules.items() if s in rule.events) for s in sources}
