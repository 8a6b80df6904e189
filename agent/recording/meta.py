"""A recording's `meta.json`: where, when and why it was made, and what it must give."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpudiag.agent.recording import expectations, yaml_items
from gpudiag.agent.recording.expectations import NOTHING, Expectations
from gpudiag.agent.recording.yaml_items import Item

VERSION = 1
FILE = "meta.json"


@dataclass(frozen=True, slots=True)
class Meta:
    """Times in epoch seconds; None where it was not written (a recording cut off has no end).

    `full` says that the size limit was reached and later samples are missing.
    """

    node: str = ""
    reason: str = ""
    start: float | None = None
    end: float | None = None
    full: bool = False


def write(meta: Meta, folder: Path) -> None:
    """Write `meta.json`, for its owner alone."""
    path = folder / FILE
    path.touch(mode=0o600)
    plain: dict[str, Any] = {"version": VERSION, **asdict(meta)}
    there = {key: value for key, value in plain.items() if value is not None}
    path.write_text(json.dumps(there, indent=1) + "\n", "utf-8")


def parse(text: str, file: str) -> tuple[Meta, Expectations]:
    """The meta data in `text`, JSON, with the `expect` and `quiet` that a person may have added."""
    # JSON is YAML as well, and read as such a complaint can name its line.
    keys = yaml_items.parse(text, file).mapping(
        (), ("version", "node", "reason", "start", "end", "full", "expect", "quiet")
    )
    if "version" in keys and keys["version"].text() != str(VERSION):
        raise keys["version"].error(f"this gpudiag reads version {VERSION}; upgrade it")
    meta = Meta(
        node=keys["node"].text() if "node" in keys else "",
        reason=keys["reason"].text() if "reason" in keys else "",
        start=_number(keys["start"]) if "start" in keys else None,
        end=_number(keys["end"]) if "end" in keys else None,
        full="full" in keys and keys["full"].text() == "true",
    )
    return meta, expectations.read(keys) if keys else NOTHING


def _number(item: Item) -> float:
    try:
        return float(item.text())
    except ValueError as error:
        raise item.error("must be a number of seconds since 1970") from error
