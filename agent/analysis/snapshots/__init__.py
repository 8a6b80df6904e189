"""Torch memory snapshots: every form there is, read without running code and within bounds."""

from gpudiag.agent.analysis.snapshots.opening import MAX_BYTES, opened
from gpudiag.agent.analysis.snapshots.shape import Block, Memory, Segment, shaped

__all__ = ["MAX_BYTES", "Block", "Memory", "Segment", "opened", "shaped"]
