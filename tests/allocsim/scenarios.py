"""Every scenario by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.allocsim import benign, fragments, leaks
from tests.allocsim.case import Case

LEAKS: tuple[Callable[[], Case], ...] = (
    leaks.scalar,
    leaks.two_kib,
    leaks.twentieth_mib,
    leaks.kept_graph,
    leaks.growing_cat,
    leaks.cycle,
    leaks.held_by_hook,
    leaks.cache,
    leaks.without_frames,
    leaks.outside_torch,
)
BENIGN: tuple[Callable[[], Case], ...] = (
    leaks.cycle_collected,
    benign.warm_up,
    benign.adam_first_step,
    benign.epoch_sawtooth,
    benign.cublas_workspace,
    benign.graph_capture,
    benign.variable_lengths,
    benign.kv_pool,
)
FRAGMENTS: tuple[Callable[[], Case], ...] = (
    fragments.variable_shapes,
    fragments.private_pool_stranded,
    fragments.other_streams_pool,
    fragments.pinned_by_few,
)
SCENARIOS = {make.__name__: make for make in (*LEAKS, *BENIGN, *FRAGMENTS)}
