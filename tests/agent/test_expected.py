import os

import pytest

from gpudiag.agent.expected import ExpectedGpus
from gpudiag.probes import Sample


def seen(count):
    return [Sample("gpudiag_gpus_expected", (), 1.0, float(count))], []


def test_the_number_survives_a_restart(tmp_path):
    ExpectedGpus(tmp_path / "n").observe(*seen(8))
    assert ExpectedGpus(tmp_path / "n").count == 8


def test_what_the_disk_refused_is_said_once_and_written_later(tmp_path, caplog):
    expected = ExpectedGpus(tmp_path / "state" / "n")
    for _ in range(3):
        expected.observe(*seen(8))
    assert caplog.text.count("cannot remember") == 1
    (tmp_path / "state").mkdir()
    expected.observe(*seen(8))
    assert ExpectedGpus(tmp_path / "state" / "n").count == 8


@pytest.mark.parametrize("garbage", [b"\xff", b"", b"-5", b"9" * 4000, b"9" * 5000])
def test_a_file_of_garbage_is_no_number(tmp_path, garbage):
    (tmp_path / "n").write_bytes(garbage)
    assert ExpectedGpus(tmp_path / "n").count == 0


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "n")
    expected = ExpectedGpus(tmp_path / "n")
    expected.observe(*seen(8))
    assert ExpectedGpus(tmp_path / "n").count == 8
