import pytest

from gpudiag.agent import units
from gpudiag.probes.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"), [("10s", 10), ("1m30s", 90), ("250ms", 0.25), ("2h", 7200), ("30d", 2592000)]
)
def test_durations(text, value):
    assert units.seconds(text) == value
    assert units.seconds(units.spell_seconds(value)) == value


@pytest.mark.parametrize("text", ["", "10", "10 s", "s", "1x", "-5s", "1s2"])
def test_a_duration_without_a_unit_is_refused(text):
    with pytest.raises(UsageError, match="not a duration"):
        units.seconds(text)


@pytest.mark.parametrize(("text", "value"), [("0B", 0), ("512MiB", 2**29), ("1.5 GiB", 3 * 2**29)])
def test_sizes(text, value):
    assert units.size(text) == value


@pytest.mark.parametrize("text", ["", "10", "2GB", "GiB", "-1B"])
def test_a_size_without_a_binary_unit_is_refused(text):
    with pytest.raises(UsageError, match="not a size"):
        units.size(text)


@pytest.mark.parametrize(("read", "unit"), [(units.seconds, "d"), (units.size, "TiB")])
def test_what_no_clock_or_disk_could_hold_is_refused(read, unit):
    with pytest.raises(UsageError, match="is too l"):
        read("9" * 400 + unit)


def test_bytes_are_spelled_for_people():
    assert [units.spell_bytes(n) for n in (0, 512, 1536, 3 * 2**30)] == [
        "0 B",
        "512 B",
        "1.5 KiB",
        "3 GiB",
    ]
