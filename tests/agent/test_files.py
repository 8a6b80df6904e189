import os

import pytest

from gpudiag.agent import files
from gpudiag.probes.errors import UsageError


def test_the_text_of_a_file(tmp_path):
    (tmp_path / "a").write_text("grün")
    assert files.text(tmp_path / "a") == "grün"


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is a pipe or a device"):
        files.text(tmp_path / "pipe")


def test_a_text_without_end_is_refused_before_it_fills_the_memory(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match=r"the configuration .*/a is too long"):
        files.text(tmp_path / "a", "the configuration")


@pytest.mark.parametrize("content", [b"\xff", None])
def test_what_cannot_be_read_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with pytest.raises(UsageError, match=r"cannot read .*/a: "):
        files.text(tmp_path / "a")
