import pytest

from gpudiag.agent.rules._train_words import said

WATCHDOG = (
    "[rank1]:[E1118 20:32:23.955028747 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught"
    " collective"
    " operation timeout: WorkNCCL(SeqNum=2635, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,"
    " Timeout(ms)=1800000) ran for 1800024 milliseconds before timing out."
)


def told(line):
    words = said(line)
    assert words is not None
    return words


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (WATCHDOG, "timeout"),
        ("NCCL WARN NET/IB : Got async event : port error", "network"),
        (
            "[rank0]: RuntimeError: [tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:2",
            "closed",
        ),
        ("[rank2]: ValueError: too many values to unpack", "error"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "oom"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.", "data"),
        ("Timed out after 1801 seconds waiting for clients. 3/4 clients joined.", "join"),
    ],
)
def test_kinds(line, kind):
    assert told(line).kind == kind


@pytest.mark.parametrize(
    "line", ["step 100 loss 2.31", "INFO NCCL connection established", "saved figure at step 3", ""]
)
def test_everyday_lines_say_nothing(line):
    assert said(line) is None


def test_a_watchdogs_numbers():
    words = told(WATCHDOG)
    assert (words.rank, words.sequence, words.operation) == ("1", 2635, "ALLREDUCE")


def test_who_failed_a_barrier_is_not_who_says_so():
    words = told("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms")
    assert (words.rank, words.culprit) == ("0", "1")


def test_a_checkpoints_step():
    assert told("successfully saved checkpoint from iteration    1000 to /ckpt").step == 1000


def test_an_exit_in_the_launchers_words():
    words = told("failed (exitcode: -9) local_rank: 3 (pid: 1234) of binary: /usr/bin/python")
    assert (words.code, words.pid) == (-9, "1234")
