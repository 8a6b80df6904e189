"""Everything that is promised about cost and speed, measured; exits 1 where a target is missed.

Run: python benchmarks/run.py [--seconds 60] [--every 1] [--only PART]. About four minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

# The benchmarks share the tests' simulated driver and running agent.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import beside_nvitop, leak_report, memory, replay_day, rules, window, xid_to_finding
from benchmarks.check import Check, show

MAX_REPLAY_SECONDS = 30.0
WINDOW_HOURS = 1.0


def _replay() -> list[Check]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "day"
        series, _ = replay_day.record(folder)
        taken = replay_day.measure(folder)
    note = f"{series} series; reading {taken['read_s']}, peak {taken['peak_rss_mib']} MiB"
    total = float(str(taken["total_s"]))
    return [Check("replay of 24 h, 8 GPUs at 10 s", total, "s", MAX_REPLAY_SECONDS, note)]


def _window() -> list[Check]:
    window.main(WINDOW_HOURS)
    return []


def main() -> int:
    options = _options()
    parts: dict[str, Callable[[], list[Check]]] = {
        "beside-nvitop": lambda: beside_nvitop.measure(options.seconds, options.every),
        "xid": xid_to_finding.measure,
        "replay": _replay,
        "rules": rules.measure,
        "window": _window,
        "memory": memory.measure,
        "leak-report": leak_report.measure,
    }
    missed = 0
    for name, part in parts.items():
        if options.only in (None, name):
            checks = part()
            if checks:
                show(name, checks)
            missed += sum(not check.ok for check in checks)
    print(f"{missed} targets missed" if missed else "every target met")
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long CPU is counted")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two scrapes")
    parser.add_argument("--only", help="one part: beside-nvitop, xid, replay, rules, window, ...")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
