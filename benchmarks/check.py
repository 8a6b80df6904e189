"""One measured figure beside its target, and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Check:
    """`limit` is the most that `measured` may be; None where there is no target to meet."""

    name: str
    measured: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.limit is None or self.measured <= self.limit


def show(title: str, checks: Iterable[Check]) -> None:
    table = Table(title=title, title_justify="left")
    for heading in ("", "measured", "target", "", "note"):
        table.add_column(heading, justify="right" if heading in ("measured", "target") else "left")
    for check in checks:
        target, verdict = "", ""
        if check.limit is not None:
            target = f"<= {check.limit:.4g} {check.unit}"
            verdict = "[green]pass[/]" if check.ok else "[red]MISS[/]"
        table.add_row(check.name, f"{check.measured:.4g} {check.unit}", target, verdict, check.note)
    Console(width=130).print(table)


def quantile(values: Iterable[float], q: float) -> float:
    """The value that a share `q` of `values` does not exceed, one that was measured."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]
