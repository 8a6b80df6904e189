"""Verdicts that no scenario of the simulator plays, on digests with figures put in by hand."""

from __future__ import annotations

import msgspec
import pytest

from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.digest import Device, Digest, Moment, Oom
from tests.agent.analysis.memory.seam import digested, judged, played
from tests.allocsim.floors import ROWS
from tests.allocsim.stacks import MAIN, torch, user

GIB = 2**30


def with_device(file: Digest, **changes: object) -> Digest:
    (device,) = file.devices
    return msgspec.structs.replace(file, devices=[msgspec.structs.replace(device, **changes)])


def with_reserved(levels: list[float], **changes: object) -> Digest:
    """A recording whose live memory is flat while reserved memory takes these levels."""
    _, digests = played("variable_lengths")
    moments = [Moment(n, n * 1_000_000, GIB, int(level)) for n, level in enumerate(levels)]
    return with_device(digests[-1], moments=moments, series=[], **changes)


def device_of(digest: Digest) -> Device:
    return digest.devices[0]


def test_a_staircase_of_reserved_memory_is_a_growing_cache():
    said = judged([with_reserved(ROWS["staircase of the cache"].sizes)]).verdict
    assert (said.kind, said.cause, said.severity) == ("caching", "caching-growth", "info")


def test_reserved_growth_that_live_blocks_hold_is_fragmentation():
    _, digests = played("variable_lengths")
    (pool, *rest) = device_of(digests[-1]).pools
    held = msgspec.structs.replace(pool, free=300 * GIB, releasable=0)
    levels = ROWS["staircase of the cache"].sizes
    said = judged([with_reserved(levels, pools=[held, *rest])]).verdict
    assert (said.kind, said.cause) == ("fragmentation", "fragmentation-growth")


def test_host_memory_that_grows_alone_is_the_host_side():
    _, digests = played("kv_pool")
    host = tuple(GIB + n * 2**24 for n in range(len(digests)))
    said = judged(digests, Asked(host=host)).verdict
    assert (said.kind, said.cause) == ("host side", "data-loading-leak")


def failing(frames, free: int = 0) -> Digest:
    """A job whose third step fails at these frames."""
    _, digests = played("adam_first_step")
    file = digests[3]
    (device,) = file.devices
    other = digested([{"blocks": [{"size": 512, "state": "active_allocated", "frames": frames}]}])
    site = device_of(other).sites[1]
    oom = Oom(GIB, free, 0, len(device.sites), 0, (0, 0), 3)
    return with_device(file, ooms=[oom], sites=[*device.sites, site], series=[], moments=[])


def test_an_optimizer_that_takes_most_is_named():
    step = (torch("optim/adam.py", 175, "_init_group"), user("train.py", 92, "train_step"), *MAIN)
    said = judged([failing(step)]).verdict
    assert (said.symptom, said.cause) == ("startup-oom", "optimizer-state-heavy")


def test_memory_that_others_hold_is_named_where_the_capacity_is_told():
    said = judged([failing(MAIN)], Asked(capacity=80 * GIB)).verdict
    assert (said.symptom, said.cause) == ("startup-oom", "memory-held-by-others")


def test_an_oom_of_no_known_cause_stays_open():
    said = judged([failing(MAIN)]).verdict
    assert said.cause == "undetermined"
    assert any("budget" in missing for missing in said.missing)


@pytest.mark.parametrize("history", [True, False])
def test_nothing_in_a_report_needs_history(history):
    case, _ = played("scalar")
    plain = case.last if history else {**case.last, "device_traces": []}
    assert judged([digested(plain)]).verdict.kind == ("leak" if history else "cannot tell")


def test_growth_at_no_single_site_is_told_as_such():
    _, digests = played("variable_lengths")
    moments = [Moment(n, n * 1_000_000, GIB + n * 2**24, 2 * GIB) for n in range(20)]
    said = judged([with_device(digests[-1], moments=moments, series=[])]).verdict
    assert (said.kind, said.cause) == ("leak", "undetermined")
    assert "16.0 MiB per step, at no single call site" in said.summary


def test_a_staircase_of_few_steps_stays_open():
    _, digests = played("variable_lengths")
    moments = [Moment(n, n, GIB + n // 5 * 2**26, 2 * GIB) for n in range(20)]
    said = judged([with_device(digests[-1], moments=moments, series=[])]).verdict
    assert said.kind == "cannot tell"
