import pytest

from gpudiag.agent import config
from gpudiag.probes.errors import UsageError


def error(text):
    with pytest.raises(UsageError) as caught:
        config.parse(text, "g.yaml")
    return str(caught.value)


def test_an_empty_file_is_the_defaults():
    assert config.parse("", "g.yaml") == config.Config()


def test_values_are_read_in_their_units():
    read = config.parse("probes: {nvml: {cadence: 500ms}}\nrecording: {max_size: 1GiB}\n", "g.yaml")
    assert (read.probes.nvml.cadence, read.recording.max_size) == (0.5, 2**30)


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("node:\n  nam: x\n", "g.yaml:2: node", "unknown field `nam`"),
        ("http: {}\nnodes: {}\n", "g.yaml:2: top level", "unknown field `nodes`"),
        (
            "probes:\n  kmsg: {}\n  nvml:\n    cadence: 3\n",
            "g.yaml:4: probes.nvml.cadence",
            "no unit",
        ),
        ("probes:\n  nvml:\n    cadence: 10ms\n", "g.yaml:3: probes.nvml.cadence", "100ms"),
        ("probes:\n  gpu: {}\n", "g.yaml:2: probes", "unknown field `gpu`"),
        ("rules:\n  thermal: {}\n", "g.yaml:2: rules.thermal", "no such rule"),
        ("node:\n  role: boss\n", "g.yaml:2: node.role", "boss"),
        ("recording:\n  max_size: 3GB\n", "g.yaml:2: recording.max_size", "not a size"),
        ("- a\n", "g.yaml:1: top level", "object"),
        ("a: [\n", "g.yaml:2", "not valid YAML"),
        ("node: {name: 2024-99-99}\n", "g.yaml", "not valid YAML"),
        (f"node: {{expected_gpus: {'9' * 5000}}}\n", "g.yaml", "not valid YAML"),
        ("[" * 5000, "g.yaml", "not valid YAML"),
        ("node:\n  expected_gpus: -5\n", "g.yaml:2: node.expected_gpus", ">= 0"),
        (
            "rules:\n  thermal-throttle:\n    thresholds:\n      share: .nan\n",
            "g.yaml:4: rules.thermal-throttle.thresholds.share",
            "is no limit",
        ),
    ],
)
def test_errors_name_the_line_and_the_key(text, where, why):
    said = error(text)
    assert said.startswith(where)
    assert why in said


def test_a_rule_is_disabled_only_with_a_reason():
    off = config.parse("rules: {disk-watermark: {disabled: 'lab node'}}", "g.yaml")
    assert "disk-watermark" not in config.rules_in_force(off)[0]
    assert "disabled" in error("rules:\n  disk-watermark:\n    disabled: true\n")


def test_an_unknown_threshold_is_refused_with_the_known_ones():
    said = error("rules:\n  thermal-throttle:\n    thresholds:\n      heat: 3\n")
    assert said.startswith("g.yaml:4: rules.thermal-throttle.thresholds.heat: no such threshold")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(UsageError, match="cannot read the configuration"):
        config.load(tmp_path / "none.yaml")
