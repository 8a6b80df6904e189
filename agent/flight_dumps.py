"""What a hang's flight-recorder dumps tell, read in a child process: the files are not our own."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

SECONDS = 120.0
MAX_DUMPS = 512


def judged(paths: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The verdicts over these dumps as lines with their fields; nothing where reading fails."""
    command = [sys.executable, "-I", "-m", "gpudiag.agent", "explain", "--json", "--fail-on"]
    command += ["critical", *map(str, paths[:MAX_DUMPS])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        causes = json.loads(done.stdout)["causes"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        log.warning("flight-recorder dumps in %s cannot be read: %s", paths[0].parent, error)
        return
    for cause in causes:
        yield str(cause["summary"]), {"cause": str(cause["cause"])}
