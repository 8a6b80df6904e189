from dataclasses import replace

import pytest

from gpudiag.probes import catalog
from gpudiag.probes.errors import UsageError

HARDWARE = {
    "gpu-lost", "gpu-count-low", "ecc-uncorrectable", "row-remap-pending", "row-remap-failed",
    "thermal-throttle", "power-brake", "nvlink-errors", "pcie-degraded", "fabric-manager-down",
    "profiling-source-broken", "nvml-wedged", "driver-mismatch", "driver-reset-required",
    "host-memory-pressure", "cpu-pressure", "network-link-flapping", "disk-watermark",
}  # fmt: skip


def explains(symptom: str) -> tuple[str, ...]:
    return catalog.symptoms()[symptom].explained_by


@pytest.mark.parametrize("symptom", sorted(HARDWARE))
def test_a_hardware_symptom_is_its_own_only_cause(symptom: str) -> None:
    assert catalog.symptoms()[symptom].causes == (symptom,)


def test_every_symptom_has_a_title_a_source_and_different_causes() -> None:
    for symptom in catalog.symptoms().values():
        assert symptom.title
        assert symptom.source
        assert symptom.causes
        assert len(set(symptom.causes)) == len(symptom.causes)


def test_xid_causes_are_all_codes_and_unknown() -> None:
    causes = catalog.symptoms()["gpu-xid"].causes
    assert causes[-1] == "unknown-code"
    assert set(causes[:-1]) == {f"xid-{code}" for code in catalog.xids()}


def test_undetermined_is_never_listed() -> None:
    assert all("undetermined" not in s.causes for s in catalog.symptoms().values())


@pytest.mark.parametrize(
    ("consequence", "cause"),
    [
        ("gpu-lost", "gpu-xid/xid-79"),
        ("gpu-count-low", "gpu-lost"),
        ("row-remap-pending", "ecc-uncorrectable"),
        ("thermal-throttle", "straggler/gpu-throttled"),
        ("host-memory-pressure", "training-interrupted/host-out-of-memory"),
        ("gpu-xid", "training-interrupted/hardware-fault"),
    ],
)
def test_a_consequence_folds_under_its_cause(consequence: str, cause: str) -> None:
    assert cause in explains(consequence)


def test_a_wanted_reset_is_explained_by_every_xid_that_asks_for_one() -> None:
    asking = {"reset_gpu", "reboot_node", "drain_and_reset", "decode", "follow_154"}
    wanted = {x.code for x in catalog.xids().values() if x.linked_154 or x.action in asking}
    listed = {e for e in explains("driver-reset-required") if e.startswith("gpu-xid/")}
    assert listed == {f"gpu-xid/xid-{code}" for code in wanted}


def test_an_application_fault_does_not_explain_a_wanted_reset() -> None:
    assert not {"gpu-xid", "gpu-xid/xid-31"} & set(explains("driver-reset-required"))


@pytest.mark.parametrize("name", ["gpu-vanished", "gpu-xid/xid-9999"])
def test_an_unknown_explanation_is_refused(name: str) -> None:
    known = catalog.symptoms()
    with pytest.raises(UsageError, match=name):
        catalog._check_explanations(replace(known["gpu-lost"], explained_by=(name,)), known)
