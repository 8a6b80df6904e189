"""The shipped rules on a real promtool."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

GENERATED = Path(__file__).parents[2] / "alerts/generated"
RULE_FILES = ("gpudiag.rules.yaml", "exporters.rules.yaml")


def passes(folder: Path, tests: list[dict[str, Any]], *, rules: str, every: str = "30s") -> None:
    """Run unit tests over a rule file that ships, evaluated each `every`; fails with the reason."""
    test = {
        "rule_files": [str(GENERATED / rules)],
        "evaluation_interval": every,
        "tests": tests,
    }
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    accepted("test", "rules", folder / "test.yaml")


def accepted(*words: str | Path) -> None:
    """Run promtool; fails the test with what it says against it."""
    done = subprocess.run(
        ["promtool", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def firing(alert: str, at: str, series: dict[str, str], count: int) -> dict[str, Any]:
    """A unit test: over these series, so many alerts of that name fire at that time."""
    expr = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    check = {"expr": expr, "eval_time": at}
    return {
        "interval": "30s",
        "input_series": [{"series": key, "values": text} for key, text in series.items()],
        "promql_expr_test": [{**check, "exp_samples": [{"labels": "{}", "value": count}]}],
    }
