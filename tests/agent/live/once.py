"""An example whose misbehaviour a restart cures: `python once.py SCRIPT --some-fault -- FLAGS`.

The flags before `--` are dropped once the launcher has restarted the job.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path


def main() -> None:
    script, end = sys.argv[1], sys.argv.index("--")
    faults, flags = sys.argv[2:end], sys.argv[end + 1 :]
    again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    sys.argv = [script, *(() if again else faults), *flags]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
