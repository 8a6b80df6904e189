"""The agent beside nvitop-exporter: same simulated driver, same scrapes, same minute.

Both are scraped in turn as Prometheus would, by one client. CPU is that of all processes of each,
so that a busy machine slows both alike; the lateness of the client's own wake-ups tells how busy.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.check import Check, quantile
from benchmarks.processes import Program, agent, driver, nvitop
from tests.running import RunningAgent, wait_for
from tests.simdriver.state import SimDriver

WARM_UP_SECONDS = 15.0
BURST_EVERY = 0.2
HANG_SECONDS = 25.0
HUNG_CALL = "nvmlDeviceGetUtilizationRates"
NEW_CELSIUS = 77

BUSY_MS = 5.0
"""The machine is not ours alone where a sleep ends so much late."""

MAX_PSS_MIB = 80.0
MAX_SCRAPE_MS = 20.0
MAX_BLIND_SECONDS = 30.0
"""How long until a hang is said; the driver counts as wedged after five seconds of silence."""


@dataclass
class Pair:
    ours: Program
    theirs: Program
    late: list[float] = field(default_factory=list)

    def scrape(self, seconds: float, every: float) -> None:
        """Scrape both each `every` seconds for a while."""
        due = time.monotonic()
        end = due + seconds
        while due < end:
            time.sleep(max(0.0, due - time.monotonic()))
            self.late.append(time.monotonic() - due)
            self.ours.scrape()
            self.theirs.scrape()
            due = max(due + every, time.monotonic())

    def forget(self) -> None:
        """Begin the latencies anew."""
        self.ours.latencies, self.theirs.latencies = [], []


def measure(seconds: float, every: float) -> list[Check]:
    """Everything side by side takes about `seconds` * 1.5 + 45 s."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sim = stack.enter_context(driver(scratch / "driver"))
        running = stack.enter_context(agent(scratch / "agent", sim.environment))
        theirs = stack.enter_context(nvitop(sim.environment))
        assert running.process
        pair = Pair(Program(running.process.pid, running.port), theirs)
        pair.scrape(WARM_UP_SECONDS, every)
        running.get("/")
        pair.forget()
        checks = [*_cost(pair, seconds, every), *_memory(pair)]
        pair.scrape(seconds / 2, BURST_EVERY)
        checks += _latency(pair, "scrape")
        checks += _hang(pair, running, sim)
        return checks


def _cost(pair: Pair, seconds: float, every: float) -> Iterator[Check]:
    began = time.monotonic()
    before = pair.ours.cpu_seconds(), pair.theirs.cpu_seconds()
    pair.scrape(seconds, every)
    minutes = (time.monotonic() - began) / 60.0
    ours = (pair.ours.cpu_seconds() - before[0]) / minutes
    theirs = (pair.theirs.cpu_seconds() - before[1]) / minutes
    note = f"nvitop-exporter {theirs:.2f}; 8 GPUs at 1 s, scraped each {every:g} s"
    yield Check("CPU of all processes, a minute", ours, "s", theirs, note)


def _memory(pair: Pair) -> Iterator[Check]:
    ours, theirs = pair.ours.pss_mib(), pair.theirs.pss_mib()
    parts = " + ".join(f"{mib:.1f}" for mib in ours)
    note = f"{parts}; nvitop-exporter {sum(theirs):.1f}"
    yield Check("PSS of all processes", sum(ours), "MiB", MAX_PSS_MIB, note)
    note = "PSS if nothing else ran Python; the window fills for 20 minutes"
    yield Check("the same, alone on the node", pair.ours.alone_mib(), "MiB", MAX_PSS_MIB, note)


def _p99(taken: list[float], busy: bool) -> float:
    """Where others took the processor, of the quietest third of the time."""
    third = len(taken) // 3
    parts = [taken[:third], taken[third : 2 * third], taken[2 * third :]] if busy else [taken]
    return min(quantile(part, 0.99) for part in parts)


def _latency(pair: Pair, what: str) -> Iterator[Check]:
    late = 1e3 * quantile(pair.late, 0.99)
    busy = late > BUSY_MS
    for whose, program, limit in (
        ("", pair.ours, MAX_SCRAPE_MS),
        ("nvitop-exporter: ", pair.theirs, None),
    ):
        taken = [1e3 * s for s in program.latencies]
        note = f"p50 {quantile(taken, 0.5):.1f}, worst {max(taken):.0f}, {len(taken)} scrapes"
        note += f", {program.failed} failed" if program.failed else ""
        yield Check(f"{whose}{what} p99", _p99(taken, busy), "ms", limit, note)
    note = f"load {os.getloadavg()[0]:.1f}"
    note += "; busy: p99 above is of the quietest third" if busy else ""
    yield Check("the client's own wake-ups late by, p99", late, "ms", None, note)
    pair.forget()
    pair.late.clear()


def _hang(pair: Pair, running: RunningAgent, sim: SimDriver) -> Iterator[Check]:
    began = time.monotonic()
    sim.set(temperature=NEW_CELSIUS).delay(HUNG_CALL, 60.0)
    pair.scrape(HANG_SECONDS, BURST_EVERY)
    yield from _latency(pair, "scrape while a driver call hangs")
    wait_for(lambda: running.firing("nvml-wedged"), seconds=MAX_BLIND_SECONDS)
    told = running.firing("nvml-wedged")[0]["raised_at"] - (time.time() - time.monotonic() + began)
    note = f"gpudiag_nvml_wedged {running.metric('gpudiag_nvml_wedged')[0]:g}, "
    note += f"{len(running.metric('gpudiag_gpu_temperature_celsius'))} temperatures shown"
    yield Check("hang begins to finding", told, "s", MAX_BLIND_SECONDS, note)
    shown = len(running.metric("gpudiag_gpu_temperature_celsius"))
    yield Check("values shown that are older than the hang", float(shown), "series", 0.0)
    yield _what_theirs_say(pair.theirs, time.monotonic() - began)


def _what_theirs_say(theirs: Program, age: float) -> Check:
    lines = [ln for ln in theirs.text().splitlines() if ln.startswith("gpu_temperature")]
    old = [ln for ln in lines if float(ln.rsplit(" ", 1)[1]) != NEW_CELSIUS]
    note = f"answers 200, {age:.0f} s into the hang"
    name = "nvitop-exporter: such values shown"
    return Check(name, float(len(old)), "series", None, note)
