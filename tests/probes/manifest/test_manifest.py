from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from gpudiag.agent.rules import _deploys
from gpudiag.probes import Event
from gpudiag.probes.errors import Unavailable, UsageError
from gpudiag.probes.manifest.comparing import differences
from gpudiag.probes.manifest.probe import ManifestProbe
from gpudiag.probes.manifest.taking import Manifest, load, take

WAS = Manifest(
    node="n1",
    python="3.11.2",
    driver="570.86.15",
    packages={"torch": "2.12.0", "attrs": "1.0"},
    variables={"NCCL_DEBUG": "WARN"},
    gpus={"0000:41:00.0": "NVIDIA H200"},
)


@pytest.fixture
def driver(tmp_path):
    """What the kernel module tells under /proc."""
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
    )
    card = tmp_path / "gpus" / "0000:41:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t NVIDIA H200\nIRQ: 5\n")
    return tmp_path


def test_it_is_taken_from_files_and_variables(driver):
    found = take({"NCCL_DEBUG": "WARN", "HF_TOKEN": "hush", "HOME": "/root"}, proc=driver)
    assert (found.driver, found.gpus) == ("570.86.15", {"0000:41:00.0": "NVIDIA H200"})
    assert found.variables == {"NCCL_DEBUG": "WARN", "HF_TOKEN": "set, not shown"}
    assert "msgspec" in found.packages
    assert "hush" not in found.to_json()


def test_another_interpreter_tells_its_own_packages():
    assert take({}, sys.executable).packages == take({}).packages


def test_an_interpreter_that_is_none_is_told():
    with pytest.raises(UsageError, match="cannot ask /no/python"):
        take({}, "/no/python")


def test_without_a_driver_it_is_absent(tmp_path):
    assert take({}, proc=tmp_path).driver == ""


def test_it_is_saved_and_read_again(tmp_path):
    (tmp_path / "m.json").write_text(WAS.to_json())
    assert load(tmp_path / "m.json") == WAS


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 9}'])
def test_what_is_no_manifest_is_told(tmp_path, text):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(UsageError, match="gpudiag doctor --save"):
        load(tmp_path / "m.json")


def test_another_node_with_the_same_environment_is_the_same():
    assert differences(WAS, replace(WAS, node="n2")) == []


def test_the_graver_come_first():
    now = replace(WAS, driver="580.1", packages={"torch": "2.13.0", "attrs": "2.0", "new": "1"})
    assert [d.line for d in differences(WAS, now)] == [
        "environment driver differs: was 570.86.15 -> 580.1",
        "package torch differs: was 2.12.0 -> 2.13.0",
        "package attrs differs: was 1.0 -> 2.0",
        "package new differs: was absent -> 1",
    ]


@pytest.fixture
def probe(tmp_path):
    (tmp_path / "m.json").write_text(WAS.to_json())
    now = {"now": replace(WAS, packages={**WAS.packages, "torch": "2.13.0"})}
    made = ManifestProbe(tmp_path / "m.json", [], {}, now=lambda: 5.0, taken=lambda *_: now["now"])
    return made, now


def test_a_difference_is_one_event_until_it_changes(probe):
    made, now = probe
    line = "package torch differs: was 2.12.0 -> 2.13.0"
    assert list(made.read()) == [Event(5.0, "log:manifest", line, "manifest")]
    assert list(made.read()) == []
    now["now"] = WAS
    assert list(made.read()) == []
    now["now"] = replace(WAS, driver="")
    (event,) = made.read()
    assert event == Event(
        5.0, "log:manifest", "environment driver differs: was 570.86.15 -> absent", "manifest"
    )


def test_weights_are_looked_through(tmp_path):
    made = ManifestProbe(None, [tmp_path / "gone"], {}, now=lambda: 5.0)
    (event,) = made.read()
    assert isinstance(event, Event)
    assert event.line.startswith("weights missing")


def test_nothing_configured_is_nothing_here():
    with pytest.raises(Unavailable, match="gpudiag doctor --save"):
        list(ManifestProbe(None, [], {}).read())


def test_the_rule_of_deploys_knows_the_lines():
    assert _deploys.DRIFT.search(differences(WAS, replace(WAS, image="b"))[0].line)
