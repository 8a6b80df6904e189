"""The page that shows all pictures, made of what each says of itself."""

from __future__ import annotations

from gpudiag.dashboards import registry
from tests.pictures.shown import PICTURES

_HEAD = """\
# What the dashboards look like

Written by `make pictures`: recorded incidents were replayed through the agent's rules, and their
panels drawn without Grafana, from the JSON in `dashboards/generated`, which Grafana imports, and
from a real Prometheus's answers.
"""


def index() -> str:
    """Markdown: for each dashboard its picture, and which symptoms lead to it."""
    parts = [_HEAD]
    for name, picture in PICTURES.items():
        uid = picture.uid
        symptoms = ", ".join(f"[{one}](../{one}.md)" for one in registry.SYMPTOMS.get(uid, ()))
        parts.append(f"## {registry.TITLES[uid]}\n\n`{uid}`. {picture.about}\n")
        parts.append(f"![{registry.TITLES[uid]}: {picture.about}]({name}.png)\n")
        if symptoms:
            parts.append(f"It has the figures of: {symptoms}.\n")
    return "\n".join(parts)
