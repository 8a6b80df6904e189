"""Lines as programs wrote them, by kind; and that no line can hurt."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
import yaml

from gpudiag.probes.logs.kinds import kinds, needles
from gpudiag.probes.logs.lines import parse

INCIDENTS = Path(__file__).parents[2] / "incidents"
GLOG = "[rank1]:[E1118 20:32:23.955028747 ProcessGroupNCCL.cpp:629] "
WATCHDOG = (
    f"{GLOG}[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2635, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800024 milliseconds"
)
STATUS = (
    f"{GLOG}[PG ID 0 PG GUID 0(default_pg) Rank 1]  failure detected by watchdog at work sequence "
    "id: 2635 PG status: last enqueued work: 2635, last completed work: 2634"
)

LINES = [
    (WATCHDOG, "collective_timeout"),
    (STATUS, "collective_timeout"),
    (
        "[PG 1 Rank 1] Timeout at NCCL work: 456, last enqueued NCCL work: 456",
        "collective_timeout",
    ),
    (
        "Exception (either an error or timeout) detected by watchdog at work: 7",
        "collective_timeout",
    ),
    (
        "Received a dump signal due to a collective timeout from rank 2 and we will",
        "collective_timeout",
    ),
    ("ProcessGroupNCCL's watchdog got stuck for 480 seconds without making", "collective_timeout"),
    (
        "[/gloo/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation",
        "collective_timeout",
    ),
    ("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms", "collective_timeout"),
    ("node1:4200:4311 [0] NCCL WARN NET/IB : Got async event : port error", "network_error"),
    (
        "NCCL WARN NET/IB: Got completion from peer 10.0.0.7<41233> with status=12 opcode=0",
        "network_error",
    ),
    ("mlx5_1:1 async fatal event on QP", "network_error"),
    ("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:23456", "peer_closed"),
    (
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 7/8 c",
        "join_timeout",
    ),
    ("E0504 10:01:07 4100 api.py:882] failed (exitcode: -11) local_rank: 2 (pid: 4202)", "exit"),
    ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "launcher_echo"),
    (
        "W1201 07:03 api.py:1028] Sending process 31506 closing signal SIGTERM",
        "launcher_echo",
    ),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.", "gpu_memory"),
    ("RuntimeError: CUDA error: out of memory", "gpu_memory"),
    ("CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "gpu_memory"),
    ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes", "host_memory"),
    ("RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed.", "loader_death"),
    ("RuntimeError: DataLoader worker (pid(s) 9, 8) exited unexpectedly", "loader_death"),
    (
        "DataLoader worker (pid 3) is killed by signal: Bus error. It is possible that dataloader's"
        " workers are out of shared memory.",
        "shm_full",
    ),
    ("RuntimeError: unable to write to file </torch_120_1> shm", "shm_full"),
    ("OSError: [Errno 28] No space left on device: '/ckpt/rank3.pt'", "no_space"),
    ("OSError: [Errno 116] Stale file handle: '/data/shard-00017.tar'", "data_error"),
    ("PIL.UnidentifiedImageError: cannot identify image file", "data_error"),
    ("RuntimeError: PytorchStreamReader failed reading zip archive: failed", "checksum"),
    ("upload of checkpoint step_2000 failed after 3 retries: 503 Slow Down", "upload_failed"),
    ("iteration 1810/ 500000 | lm loss: nan | grad norm: nan", "not_finite"),
    ("The NVIDIA driver on your system is too old (found version 12020)", "driver"),
    ("torch.AcceleratorError: CUDA error: invalid device ordinal", "no_device"),
    ("RuntimeError: CUDA error: unspecified launch failure", "device_error"),
    ("ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E", "environment"),
    ("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue", "engine_hung"),
    ("[TP0] Watchdog timeout (self.watchdog_timeout=300)", "engine_hung"),
    ("ERROR shard-manager: text_generation_launcher: Shard 0 crashed", "engine_hung"),
    ("Stub process 'model_0_0' is not healthy.", "engine_hung"),
    ("OSError: /models/llama does not appear to have a file named config.json", "load_failed"),
    ("504 Gateway Timeout", "request_timeout"),
    ("WARNING: no checkpoint found in /ckpt, will train from scratch", "resume_scratch"),
    ("Loaded checkpoint /ckpt at step 4000", "resumed"),
    ("saved checkpoint at iteration 2000 to /ckpt", "saved"),
    ("Fatal Python error: Segmentation fault", "crash"),
    ("terminate called after throwing an instance of 'c10::DistBackendError'", "crash"),
    ("[rank1]: KeyError: 'labels'", "error"),
    ("Loading safetensors checkpoint shards:  99% Completed", "loading"),
    ("[TP0] Scheduler loop: #running-req: 0, #token: 0, #queue-req: 5", "engine_idle"),
    ("Generated text: '!!!!!!!!!!!!!!!!!!!!!!!!!!!!'", "repeated_tokens"),
]


@pytest.mark.parametrize(("line", "kind"), LINES)
def test_every_kind(line: str, kind: str) -> None:
    fact = parse(line)
    assert fact is not None
    assert fact.kind == kind
    assert needles().search(line.encode())


def test_every_kind_has_a_line() -> None:
    seen = {kind for _, kind in LINES} | {"refused_memory", "quota"}
    assert seen == {kind.name for kind in kinds()}


@pytest.mark.parametrize(
    "line",
    [
        "step 1234 loss=2.34 lr=1e-4 tokens/s 12345 grad_norm 0.8",
        'INFO: 10.0.4.7:41822 - "GET /health HTTP/1.1" 200 OK',
        "Traceback (most recent call last):",
        "uploaded checkpoint step_2000",
        "NCCL INFO Connected all rings",
        "0 errors, no exceptions",
        "",
    ],
)
def test_everyday_lines_tell_nothing(line: str) -> None:
    assert parse(line) is None


def test_the_watchdog_tells_rank_collective_and_size() -> None:
    fact = parse(WATCHDOG)
    assert fact is not None
    told = {"rank": "1", "sequence": "2635", "operation": "ALLREDUCE", "elements": "1"}
    assert fact.fields == {**told, "waited": "1800000"}


def test_its_status_line_tells_how_far_the_rank_came() -> None:
    fact = parse(STATUS)
    assert fact is not None
    assert (fact.number("enqueued"), fact.number("completed")) == (2635, 2634)
    assert fact.fields["group"] == "default_pg"


def test_the_accused_of_a_barrier_is_not_the_speaker() -> None:
    fact = parse("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms")
    assert fact is not None
    assert (fact.rank, fact.fields["culprit"]) == ("0", "1")


def test_every_line_of_the_incidents_is_known_but_for_the_everyday_ones() -> None:
    everyday = ("GET /health", "Traceback", "uploaded checkpoint")
    for path in INCIDENTS.glob("**/*.yaml"):
        for event in yaml.safe_load(path.read_text()).get("events", []):
            line = event["line"]
            if event["source"].startswith("log") and not any(word in line for word in everyday):
                assert parse(line), line
                assert needles().search(line.encode()), line


PIECES = [line for line, _ in LINES] + ["(" * 200, "\0\x1b[31m", "é" * 50, "9" * 400, " " * 300]


def garbage(dice: random.Random) -> str:
    parts = []
    for _ in range(dice.randrange(1, 6)):
        piece = dice.choice(PIECES)
        start = dice.randrange(len(piece))
        parts.append(piece[start : start + dice.randrange(1, 200)])
    return "".join(parts) * dice.choice((1, 1, 1, 40))


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_line_hurts(count: int) -> None:
    dice = random.Random(7)
    began = time.process_time()
    for _ in range(count):
        fact = parse(garbage(dice))
        assert fact is None or fact.text is not None
    assert (time.process_time() - began) / count < 0.005


def test_no_kind_is_called_as_what_the_hooks_report() -> None:
    # Rules take these on their type's word; of a log line they ask the text.
    hooks = {"oom", "snapshot", "hang_dump", "step_timeout", "job_ended"}
    assert not hooks & {kind.name for kind in kinds()}
