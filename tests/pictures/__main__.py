"""`python -m tests.pictures`: the dashboards of replayed incidents, drawn without Grafana.

A real Prometheus answers the panels' own expressions; what comes out is in `runbooks/pictures`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.dashboards.recorded import filled, record
from tests.pictures import paper
from tests.pictures.index import index
from tests.pictures.shown import PICTURES

END = 1_767_268_800.0
"""2026-01-01 12:00 UTC: the same every time, so that a change of a picture is a change of ours."""


def main(names: list[str]) -> None:
    """Draw those that are named, or all, and renew the page that shows them."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = record(Path(folder), END)
        prometheus = filled(recorded, Path(folder), lookback="2m")
        try:
            for name, picture in PICTURES.items():
                if not names or name in names:
                    picture.draw(prometheus, END, paper.FOLDER / f"{name}.png")
        finally:
            prometheus.stop()
    (paper.FOLDER / "README.md").write_text(index(), "utf-8")
    paper.lighten(paper.FOLDER / "page.png")


if __name__ == "__main__":
    main(sys.argv[1:])
