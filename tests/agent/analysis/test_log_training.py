"""Failure blocks as programs write them: the cause first, what follows from it behind."""

from pathlib import Path

import pytest

from gpudiag.agent.analysis.causes import Cause
from gpudiag.agent.analysis.log_causes import explain
from gpudiag.agent.analysis.log_words import WORDS
from gpudiag.probes import catalog
from gpudiag.probes.logs.kinds import kinds

CONSOLE = Path(__file__).parents[2] / "probes/logs/torchrun/console.txt"


def causes(*lines: str) -> list[Cause]:
    return list(explain("\n".join(lines)).causes)


def watchdog(rank: int, sequence: int = 2635, operation: str = "ALLREDUCE") -> str:
    return (
        f"[rank{rank}]:[E501 10:15:04.9550 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught"
        f" collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType={operation},"
        " NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600024 milliseconds"
    )


def closed(rank: int) -> str:
    words = "remote process exited or there was a network error"
    return f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error: {words}"


def test_every_word_is_a_kind_and_documented() -> None:
    assert set(WORDS) <= {kind.name for kind in kinds()}
    for said in WORDS.values():
        assert said.cause in (*catalog.symptoms()[said.symptom].causes, "undetermined")


def test_torchrun_s_root_cause_is_the_only_one() -> None:
    (found,) = causes(*CONSOLE.read_text().splitlines())
    assert (found.page, found.who) == ("training-interrupted#process-crash", "rank 1")
    assert "labels are missing" in found.summary
    assert "rank 0: ended by torchrun" in found.rivals[0][1]


def test_the_timeouts_after_an_error_follow_from_it() -> None:
    first, second, third = causes("[rank1]: KeyError: 'labels'", watchdog(0), closed(2))
    assert (first.who, first.consequence_of) == ("rank 1", "")
    assert {second.consequence_of, third.consequence_of} == {"training-interrupted#process-crash"}


def test_an_error_of_a_rank_that_complained_before_is_its_echo() -> None:
    found = causes(closed(0), "[rank0]: RuntimeError: aborted", "[rank2]: KeyError: 'x'")
    assert found[0].who == "rank 2"


def test_the_rank_that_stands_behind_is_named() -> None:
    (found,) = causes(watchdog(0), watchdog(1, 2634), watchdog(2))
    assert (found.cause, found.who) == ("hung-collective", "rank 1")


def test_the_rank_that_nobody_heard_is_named() -> None:
    (found,) = causes(watchdog(0), watchdog(1), watchdog(3))
    assert found.who == "rank 2"


def test_ranks_in_different_collectives() -> None:
    (found,) = causes(watchdog(0), watchdog(1, operation="BROADCAST"))
    assert "ALLREDUCE, BROADCAST" in found.summary


def test_the_first_collective_is_a_start_that_never_was() -> None:
    (found,) = causes(watchdog(0, 1), watchdog(1, 1))
    assert found.page == "startup-incomplete#comm-timeouts-in-log"


def test_a_barrier_names_whom_it_waits_for() -> None:
    (found,) = causes("[Rank 0]: Rank 3 failed to pass monitoredBarrier in 4000 ms")
    assert found.who == "rank 3"


def test_a_port_error_explains_timeout_and_lost_peers() -> None:
    first, *rest = causes("NCCL WARN NET/IB : Got async event : port error", watchdog(0), closed(1))
    assert first.cause == "network-unstable"
    assert {one.consequence_of for one in rest} == {"training-interrupted#network-unstable"}


def test_a_hardware_fault_explains_what_the_ranks_say() -> None:
    xid = "[ 9.100001] NVRM: Xid (PCI:0000:b3:00): 79, pid=1, name=a, GPU has fallen off the bus"
    first, *rest = causes(xid, "[rank1]: KeyError: 'x'", watchdog(0))
    assert first.cause == "xid-79"
    assert all(one.consequence_of for one in rest)


@pytest.mark.parametrize("code", [-15, -2])
def test_ranks_that_were_asked_to_end_have_not_failed(code: int) -> None:
    assert causes(f"api.py:882] failed (exitcode: {code}) local_rank: 2 (pid: 42)") == []


def test_an_exit_by_sigkill_says_what_would_settle_it() -> None:
    (found,) = causes("api.py:882] failed (exitcode: -9) local_rank: 2 (pid: 42)")
    assert "SIGKILL" in found.summary
    assert "kernel" in found.missing[0]


def test_an_oom_message_is_told_once() -> None:
    (found,) = causes(
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has"
        " a total capacity of 79.25 GiB of which 1.10 GiB is free."
    )
    assert found.symptom == "startup-oom"


def test_a_quiet_log_gives_nothing_away() -> None:
    assert causes("saved checkpoint at step 100", "Loading safetensors shards: 10%", "step 3") == []


def test_a_full_shm_is_more_than_a_dead_worker() -> None:
    (found,) = causes(
        "RuntimeError: DataLoader worker (pid 3) is killed by signal: Bus error. It is possible"
        " that dataloader's workers are out of shared memory."
    )
    assert "/dev/shm" in found.summary
