"""What the window costs: ingest, queries, memory over a day, saving and restarting.

Run it with `python benchmarks/window.py [HOURS]`; 400 series at 1 s, 24 hours unless told.
"""

from __future__ import annotations

import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from gpudiag.agent.window import Window
from gpudiag.agent.window.archive import Archive
from gpudiag.probes import Sample, labels

GPUS = [labels(gpu=str(n), uuid=f"GPU-{n}") for n in range(8)]
METRICS = [f"gpudiag_bench_{n}" for n in range(50)]
TRENDS = METRICS[:10]
START = 1.7e9


def batch(now: float, series: int) -> list[Sample]:
    """One reading of each series; half of them move, as those of an idle or steady GPU do not."""
    return [
        Sample(metric, gpu, now, 100.0 + (now * (1 + at % 7)) % 13 if at % 2 else float(at))
        for at, metric in enumerate(METRICS)
        for gpu in GPUS
    ][:series]


def milliseconds(work: Callable[[], object], times: int) -> float:
    begun = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begun) / times * 1e3


def queries(window: Window) -> None:
    """As some 200 questions of rules: most want the newest value, some a span."""
    for metric in METRICS[:36]:
        window.latest(metric)
        for gpu in ("0", "3", "5", "7"):
            window.value(metric, gpu=gpu)
    for metric in METRICS[:10]:
        window.series(metric, 60.0)
        window.increase(metric, 300.0)
    for metric in TRENDS[:5]:
        window.minutes(metric, 6 * 3600.0)


def day(window: Window, hours: float) -> None:
    print(f"{'hour':>5} {'window MiB':>10} {'ingest ms/400, traced':>21}")
    first, spent = tracemalloc.get_traced_memory()[0], 0.0
    for second in range(int(hours * 3600)):
        window.now = START + second
        samples = batch(window.now, 400)
        begun = time.perf_counter()
        window.add(samples)
        spent += time.perf_counter() - begun
        if second % 7200 == 7199:
            held = (tracemalloc.get_traced_memory()[0] - first) / 2**20
            print(f"{(second + 1) / 3600:5.1f} {held:10.1f} {spent / 7.2:21.3f}")
            spent = 0.0


def main(hours: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "window.db"
        tracemalloc.start()
        window = Window(METRICS, trends=TRENDS, archive=Archive(path))
        window.restore(START)
        day(window, hours)
        tracemalloc.stop()
        speed(window, path)


def speed(window: Window, path: Path) -> None:
    batches = [batch(window.now + n, 300) for n in range(1, 51)]
    queue = iter(batches)
    print(f"ingest of 300 samples    {milliseconds(lambda: window.add(next(queue)), 50):8.3f} ms")
    window.now += 50.0
    once = milliseconds(lambda: (window.add(batches[-1]), queries(window)), 50)
    print(f"ingest and 205 questions {once:8.3f} ms")
    print(f"205 questions again      {milliseconds(lambda: queries(window), 50):8.3f} ms")
    for span in (60.0, 900.0, 7200.0):
        cost = milliseconds(lambda span=span: window.series(METRICS[1], span), 200)
        print(f"series of {span:6.0f} s, 8 GPUs {cost:7.3f} ms")
    print(f"saving a minute          {milliseconds(window.tidy, 1):8.3f} ms")
    print(f"file                     {path.stat().st_size / 2**20:8.1f} MiB")
    window.close()
    again = Window(METRICS, trends=TRENDS, archive=Archive(path))
    print(f"restart                  {milliseconds(lambda: again.restore(window.now), 1):8.3f} ms")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 24.0)
