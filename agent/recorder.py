"""Records for a while: from this node's own probes, or from what a running agent shows."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.parser import text_string_to_metric_families

from gpudiag.agent.asking import ask
from gpudiag.agent.clock import Clock
from gpudiag.agent.inventory import Inventory
from gpudiag.agent.recording.writer import RecordingWriter
from gpudiag.agent.scheduler import Batch, Scheduler
from gpudiag.probes import Sample
from gpudiag.probes.errors import GpudiagError

SCRAPE_SECONDS = 1.0


def from_probes(
    scheduler: Scheduler, inventory: Inventory, clock: Clock, seconds: float
) -> Iterator[Batch]:
    """What the probes of `scheduler` read in `seconds`; it is started and stopped here."""
    until = clock.monotonic() + seconds
    scheduler.start()
    try:
        while (left := until - clock.monotonic()) > 0.0:
            try:
                samples, events = scheduler.batches.get(timeout=left)
            except queue.Empty:
                return
            inventory.observe(samples, events)
            yield samples, events
    finally:
        scheduler.stop()


def from_agent(
    read: Callable[[], str], clock: Clock, seconds: float, wait: Callable[[float], None]
) -> Iterator[Batch]:
    """What `read` gives each second, as text for Prometheus; `wait` sleeps.

    Raises `GpudiagError` where the first read does; later ones may fail, and leave a gap.
    """
    due = clock.monotonic()
    until = due + seconds
    yield parse(read(), clock.now()), []
    while (due := max(due + SCRAPE_SECONDS, clock.monotonic())) < until:
        wait(due - clock.monotonic())
        try:
            yield parse(read(), clock.now()), []
        except GpudiagError:
            continue


def parse(text: str, now: float) -> list[Sample]:
    """Samples in Prometheus' text format, as of `now`; raises `GpudiagError` for other text."""
    try:
        return [
            Sample(s.name, tuple(sorted(s.labels.items())), now, float(s.value))
            for family in text_string_to_metric_families(text)
            for s in family.samples
            if not s.name.endswith("_created")
        ]
    except ValueError as error:
        raise GpudiagError(
            f"the agent's answer is not in Prometheus' format: {str(error)[:200]}"
        ) from error


def scrape(url: str) -> str:
    """The text of `/metrics` of the agent at `url`; raises `GpudiagError`."""
    return ask(url, "/metrics").decode("utf-8", "replace")


def write(batches: Iterable[Batch], writer: RecordingWriter, clock: Clock) -> tuple[int, int]:
    """Write `batches` until they end, the size limit is reached or Ctrl-C; complete the recording.

    Gives the numbers of samples and events. Each batch is handed to the kernel at once; where the
    source fails before it has given anything, nothing is left behind.
    """
    samples = events = 0
    try:
        for batch in batches:
            writer.add(*batch)
            writer.flush()
            samples += len(batch[0])
            events += len(batch[1])
            if writer.full:
                break
    except GpudiagError:
        writer.abandon()
        raise
    except KeyboardInterrupt:
        pass
    writer.close(clock.now())
    return samples, events
