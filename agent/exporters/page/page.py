"""Renders the page at `/`, its live part, and the runbooks, from templates beside this file."""

from __future__ import annotations

import re
import threading
from functools import cached_property
from typing import TYPE_CHECKING

from gpudiag.agent import pages
from gpudiag.agent.exporters import words
from gpudiag.agent.exporters.page import gpus, host, runbook
from gpudiag.agent.exporters.page.cards import Dealer
from gpudiag.agent.exporters.page.markup import coded
from gpudiag.agent.exporters.view import Snapshot, Snapshots
from gpudiag.dashboards import registry

if TYPE_CHECKING:
    from jinja2 import Environment

_SEVERITIES = {"critical": "✖ Critical", "warning": "▲ Warning", "info": "● For information"}
_MODES = {"dry-run": "dry run: says what it would do, changes nothing"}


class Page:
    """The pages of one agent. Any thread may call it; a snapshot is rendered once."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._lock = threading.Lock()
        self._of: Snapshot | None = None
        self._fragment = ""
        self._known_gpus: dict[str, str] = {}

    @cached_property
    def _templates(self) -> Environment:
        # Imported on the first visit: an agent that nobody looks at does without its 4 MiB.
        from jinja2 import Environment, PackageLoader, StrictUndefined

        return Environment(
            loader=PackageLoader("gpudiag.agent.exporters", "page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def whole(self) -> str:
        """The page as a browser first gets it."""
        return self._render("page.html", body=self.fragment(), node=self._node())

    def fragment(self) -> str:
        """What changes: everything inside `<main>`."""
        with self._lock:
            snapshot = self._snapshots.get()
            if snapshot is not self._of:
                self._fragment = self._render("fragment.html", **self._content(snapshot))
                self._of = snapshot
            return self._fragment

    def runbook(self, symptom: str) -> str | None:
        """The runbook of a symptom as a page; None where there is none."""
        body = runbook.html(symptom)
        if body is None:
            return None
        shown = _section(symptom)
        return self._render(
            "runbook.html", body=body, symptom=symptom, node=self._node(), shown=shown
        )

    def pictures(self) -> str:
        """What the dashboards look like, on replayed incidents."""
        # The file's own links lead to its neighbours in the repository; here a page has no suffix.
        text = re.sub(r"\(\.\./([a-z-]+)\.md\)", r"(/runbooks/\1)", pages.pictures())
        body = runbook.rendered(text)
        return self._render("pictures.html", body=body, node=self._node())

    def runbooks(self) -> str:
        """The list of all runbooks."""
        return self._render(
            "runbooks.html", symptoms=runbook.listed(), node=self._node(), severities=_SEVERITIES
        )

    def _node(self) -> str:
        return self._snapshots.get().info.node

    def _content(self, snapshot: Snapshot) -> dict[str, object]:
        view = self._snapshots.view
        # Kept from earlier snapshots: a GPU that is gone must not vanish from the page too.
        self._known_gpus |= gpus.numbers(snapshot)
        return {
            "info": snapshot.info,
            "mode": _MODES.get(snapshot.info.mode, snapshot.info.mode),
            "severities": _SEVERITIES,
            "progress": _progress(snapshot),
            "local": words.clock(snapshot.now),
            "utc": words.utc(snapshot.now),
            "found": Dealer(snapshot, view, self._known_gpus).findings(),
            "failing": [p for p in snapshot.probes if p.available and not p.ok],
            "absent": [p for p in snapshot.probes if not p.available],
            "working": [p for p in snapshot.probes if p.available and p.ok],
            "unknown": snapshot.unknown,
            "gpus": gpus.rows(snapshot, view, self._known_gpus),
            "host": host.cells(snapshot),
            "series": len(snapshot.samples),
            "plain": words.plain,
            "coded": coded,
            "shown": _section,
        }

    def _render(self, template: str, **content: object) -> str:
        return self._templates.get_template(template).render(content)


def _section(symptom: str) -> str:
    """Where the pictures' page shows the dashboard with a symptom's figures."""
    return registry.section(registry.dashboard_of(symptom))


def _progress(snapshot: Snapshot) -> str:
    """How far a replay has come; empty where the end is not known."""
    info = snapshot.info
    if info.replay_until is None:
        return ""
    done, whole = snapshot.now - info.started, info.replay_until - info.started
    if done >= whole:
        return f"It has ended after {words.duration(whole)}: its last moment stands still here."
    return f"{words.share(int(done), int(whole), 'seconds')} of the recording so far."
