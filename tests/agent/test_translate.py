import math

import pytest

from gpudiag.agent.translate import BELIEVED_SECONDS, Translator
from gpudiag.probes import Sample, labels
from gpudiag.probes.catalog.dialects import dialects

DCGM = {
    "UUID": "GPU-1",
    "gpu": "1",
    "Hostname": "n1",
    "modelName": "H100",
    "exported_pod": "train-0",
}
OURS = labels(uuid="GPU-1", gpu="1", node="n1")


def dcgm(metric, value, time=1.0, **more):
    return Sample(f"DCGM_FI_DEV_{metric}", labels(**DCGM, **more), time, value)


def one(*samples):
    return Translator().samples(samples)


@pytest.mark.parametrize(
    ("metric", "value", "name", "ours", "more"),
    [
        ("GPU_TEMP", 61.0, "temperature_celsius", 61.0, {"sensor": "core"}),
        ("GPU_TEMP_CELSIUS", 61.0, "temperature_celsius", 61.0, {"sensor": "core"}),
        ("FB_USED", 2.0, "memory_used_bytes", 2.0 * 2**20, {}),
        ("GPU_UTIL", 97.0, "utilization_ratio", 0.97, {}),
        ("GPU_UTIL_RATIO", 0.97, "utilization_ratio", 0.97, {}),
        ("SM_CLOCK", 1980.0, "clock_hertz", 1.98e9, {"clock": "sm"}),
        ("TOTAL_ENERGY_CONSUMPTION", 5000.0, "energy_joules_total", 5.0, {}),
    ],
)
def test_dcgms_names_old_and_new_in_our_units(metric, value, name, ours, more):
    (sample,) = one(dcgm(metric, value))
    assert sample.metric == f"gpudiag_gpu_{name}"
    assert sample.labels == tuple(sorted({**dict(OURS), **more}.items()))
    assert sample.value == pytest.approx(ours)


def test_a_pod_that_restarts_leaves_one_series():
    other = Sample("DCGM_FI_DEV_GPU_TEMP", labels(**DCGM | {"exported_pod": "train-1"}), 2.0, 62.0)
    assert len({s.labels for s in one(dcgm("GPU_TEMP", 61.0), other)}) == 1


def test_the_bit_mask_becomes_a_series_per_reason():
    active = {dict(s.labels)["reason"]: s.value for s in one(dcgm("CLOCKS_EVENT_REASONS", 0x44))}
    assert (active["hw_thermal"], active["power_cap"], active["power_brake"]) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize("metric", ["CLOCKS_EVENT_REASONS", "GPU_TEMP", "XID_ERRORS"])
def test_a_stale_marker_stays_one(metric):
    assert all(math.isnan(s.value) for s in one(dcgm(metric, math.nan)))


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinite_figure_is_no_measurement(value):
    assert one(dcgm("GPU_TEMP", value)) == []


def test_the_gauge_of_the_last_xid_becomes_a_count_of_its_changes():
    translator = Translator()
    readings = [31.0, 31.0, 79.0, 79.0, 31.0]
    told = [translator.samples([dcgm("XID_ERRORS", v, t)]) for t, v in enumerate(readings)]
    assert [[(dict(s.labels)["xid"], s.time, s.value) for s in batch] for batch in told] == [
        [],
        [],
        [("79", 1, 0.0), ("79", 2, 1.0)],
        [],
        [("31", 3, 0.0), ("31", 4, 1.0)],
    ]


def test_of_two_sources_the_better_is_believed_until_it_falls_silent():
    translator = Translator()
    ours = Sample("gpudiag_gpu_temperature_celsius", labels(uuid="GPU-1", gpu="1"), 1.0, 60.0)
    assert len(translator.samples([ours, dcgm("GPU_TEMP", 61.0)])) == 1
    later = dcgm("GPU_TEMP", 61.0, 2.0 + BELIEVED_SECONDS)
    assert [s.value for s in translator.samples([later])] == [61.0]


def test_a_worse_source_tells_of_what_the_better_does_not():
    ours = Sample("gpudiag_gpu_temperature_celsius", labels(uuid="GPU-1", gpu="1"), 1.0, 60.0)
    assert len(one(ours, dcgm("POWER_USAGE", 300.0))) == 2


def test_a_uuid_gets_the_prefix_it_lacks():
    smi = Sample("nvidia_smi_temperature_gpu", labels(uuid="aa-bb"), 1.0, 60.0)
    assert dict(one(smi)[0].labels)["uuid"] == "GPU-aa-bb"


def test_names_of_no_dialect_pass_untouched():
    other = Sample("node_boot_time_seconds", (), 1.0, 2.0)
    assert one(other) == [other]


def test_every_foreign_name_begins_as_its_dialect_says():
    for dialect in dialects():
        assert all(name.startswith(dialect.prefix) for name in dialect.meanings), dialect.name
    ranks = [dialect.rank for dialect in dialects()]
    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize("le", ["", "abc", "NaN"])
@pytest.mark.parametrize(
    "name", ["nv_inference_first_response_histogram_ms", "vllm:time_to_first_token_seconds"]
)
def test_a_bucket_without_a_bound_costs_only_itself(name, le):
    bad = Sample(f"{name}_bucket", labels(server="s", le=le), 1.0, 3.0)
    good = Sample(f"{name}_bucket", labels(server="s", le="100"), 1.0, 5.0)
    assert [s.value for s in one(bad, good)] == [5.0]


def test_an_xid_gauge_with_its_code_among_the_labels_is_one_gauge():
    def gauge(code, time):
        names = {"UUID": "GPU-1", "gpu": "0", "err_code": str(code), "err_msg": "words"}
        return Sample("DCGM_FI_DEV_XID_ERRORS", labels(**names), time, float(code))

    translator = Translator()
    assert translator.samples([gauge(0, 10.0)]) == []
    told = translator.samples([gauge(79, 20.0)])
    assert [(dict(s.labels)["xid"], s.time, s.value) for s in told] == [
        ("79", 10.0, 0.0),
        ("79", 20.0, 1.0),
    ]
    # What ended may be read once more beside its successor.
    assert translator.samples([gauge(0, 20.0), gauge(79, 30.0)]) == []


def test_pressure_counted_in_seconds_becomes_a_share_of_time():
    def waited(time, seconds):
        name = "node_pressure_cpu_waiting_seconds_total"
        return Sample(name, labels(instance="n1:9100"), time, seconds)

    translator = Translator()
    assert translator.samples([waited(10.0, 100.0)]) == []
    (told,) = translator.samples([waited(25.0, 109.0)])
    assert (told.metric, dict(told.labels)) == (
        "gpudiag_host_pressure_ratio",
        {"resource": "cpu", "kind": "some"},
    )
    assert told.value == pytest.approx(0.6)
    # It began anew: what it rose by is not known.
    assert translator.samples([waited(40.0, 3.0)]) == []
    assert translator.samples([waited(55.0, 6.0)])[0].value == pytest.approx(0.2)


def test_what_an_agent_says_of_its_host_is_believed_before_node_exporter():
    own = Sample("gpudiag_host_memory_available_bytes", (), 10.0, 1e9)
    other = Sample("node_memory_MemAvailable_bytes", labels(instance="n1:9100"), 10.0, 2e9)
    translator = Translator()
    assert translator.samples([other, own]) == [own]
    late = other._replace(time=11.0 + BELIEVED_SECONDS)
    assert [s.value for s in translator.samples([late])] == [2e9]
