from gpudiag.agent.rules.contract import Healthy
from tests.agent.rules.seam import diagnoses, judge

BUSY = 'gpudiag_gpu_utilization_ratio{{uuid="GPU-{}",gpu="{}"}}'


def busy(gpu: int) -> str:
    return BUSY.format(gpu, gpu)


def test_a_silent_gpu_among_speaking_ones_is_lost() -> None:
    said = judge("gpu-lost", {busy(0): "1x40", busy(1): "1x20 stale"})
    assert diagnoses(said).keys() == {"GPU-1"}
    assert Healthy((("uuid", "GPU-0"),)) in said


def test_where_all_are_silent_no_gpu_is_lost() -> None:
    series = {busy(0): "1x20 stale", busy(1): "1x20 stale", "gpudiag_host_load1": "1x40"}
    assert judge("gpu-lost", series) == []


def test_the_only_gpu_is_lost_while_the_driver_counts() -> None:
    series = {busy(0): "1x20 stale", "gpudiag_gpus": "1x20 0x20", "gpudiag_gpus_expected": "1x41"}
    assert diagnoses(judge("gpu-lost", series)).keys() == {"GPU-0"}


def test_the_drivers_own_word_is_the_surest() -> None:
    lost = 'gpudiag_gpu_lost{uuid="GPU-1",gpu="1"}'
    series = {busy(0): "1x40", busy(1): "1x20 stale", lost: "0x20 1x20"}
    assert diagnoses(judge("gpu-lost", series))["GPU-1"].confidence == 0.95


def test_a_gpu_that_was_handed_away_is_not_lost() -> None:
    series = {busy(0): "1x40", busy(1): "1x20 stale"}
    counts = {"gpudiag_gpus": "2x20 1x20", "gpudiag_gpus_expected": "2x20 1x20"}
    assert diagnoses(judge("gpu-lost", {**series, **counts})) == {}


def test_one_metric_of_several_missing_is_not_a_loss() -> None:
    heat = 'gpudiag_gpu_temperature_celsius{uuid="GPU-1",sensor="core"}'
    said = judge("gpu-lost", {busy(0): "1x40", busy(1): "1x40", heat: "60x20 stale"})
    assert diagnoses(said) == {}


def test_a_gpu_that_is_listed_and_silent_is_lost_but_less_surely() -> None:
    counts = {"gpudiag_gpus": "2x40", "gpudiag_gpus_expected": "2x40"}
    found = diagnoses(judge("gpu-lost", {busy(0): "1x40", busy(1): "1x20 stale", **counts}))
    assert found["GPU-1"].confidence == 0.7
    assert found["GPU-1"].missing


def test_silence_counts_at_once_where_the_driver_misses_one() -> None:
    counts = {"gpudiag_gpus": "2x10 1x2", "gpudiag_gpus_expected": "2x13"}
    series = {busy(0): "1x13", busy(1): "1x10", **counts}
    assert diagnoses(judge("gpu-lost", series, every=60.0)).keys() == {"GPU-1"}


FALLEN = "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."
INFO = {'gpudiag_gpu_info{uuid="GPU-1",gpu="1",pci_bus_id="00000000:3B:00.0"}': "1x40"}


def test_the_kernels_word_counts_where_no_reading_came_since() -> None:
    series = {busy(0): "1x40", busy(1): "1x40", **INFO}
    assert diagnoses(judge("gpu-lost", series, [(399.0, FALLEN)])).keys() == {"GPU-1"}
    assert diagnoses(judge("gpu-lost", series, [(300.0, FALLEN)])) == {}


def test_without_series_the_bus_address_is_named() -> None:
    found = diagnoses(judge("gpu-lost", {"gpudiag_host_load1": "1x40"}, [(300.0, FALLEN)]))
    assert found["0000:3b:00.0"].summary.startswith("The GPU at 0000:3b:00.0 is lost: the kernel")


def test_a_wedged_driver_loses_no_gpu() -> None:
    series = {busy(0): "1x20 stale", busy(1): "1x20 stale", "gpudiag_gpus": "2x40"}
    probe = {'gpudiag_probe_success{probe="nvml"}': "1x20 0x20"}
    assert judge("gpu-lost", {**series, **probe}) == []


def test_a_node_that_falls_silent_as_a_whole_lost_no_gpu() -> None:
    def on(node: str, gpu: int) -> str:
        return busy(gpu).replace("}", f',node="{node}"}}')

    series = {on("a", 0): "1x40", on("a", 1): "1x40", on("b", 2): "1x20 stale"}
    assert diagnoses(judge("gpu-lost", series)) == {}
    series[on("a", 1)] = "1x20 stale"
    assert diagnoses(judge("gpu-lost", series)).keys() == {"GPU-1"}
