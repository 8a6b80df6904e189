"""Programs some tests need: skipped with a reason where absent, never in CI."""

from __future__ import annotations

import os
import shutil

import pytest


def needs(program: str, package: str) -> pytest.MarkDecorator:
    """Skip where `program` is not installed; in CI its absence fails the test instead."""
    missing = shutil.which(program) is None and not os.environ.get("CI")
    return pytest.mark.skipif(missing, reason=f"{program} is not here: apt-get install {package}")
