import json
from pathlib import Path

import pytest

from gpudiag.probes.logs.places import error_files, place, places

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/log/rank3.log", "rank3"),
        ("/log/vllm.log.1", "vllm"),
        ("/srv/chat/stderr.log", "chat"),
        ("/log/run_x/attempt_0/3/stderr.log", "train"),
        (f"/var/log/containers/vllm-7f-abc_serving_engine-{ID}.log", "vllm-7f-abc"),
    ],
)
def test_whose_a_log_is(path: str, name: str) -> None:
    assert place(Path(path)).name == name


def test_a_container_is_told_with_pod_and_namespace() -> None:
    fields = place(Path(f"/c/pod-1_ml_trainer-{ID}.log")).fields
    assert fields == {"pod": "pod-1", "namespace": "ml", "container": "trainer"}


def test_torchrun_s_folders_tell_the_local_rank() -> None:
    fields = place(Path("/log/none_ab/attempt_2/3/stdout.log")).fields
    assert fields == {"attempt": "2", "local_rank": "3"}


def test_docker_tells_the_name_beside_the_log(tmp_path: Path) -> None:
    (tmp_path / "config.v2.json").write_text(json.dumps({"Name": "/vllm"}))
    assert place(tmp_path / f"{ID}-json.log").name == "vllm"
    assert place(Path(f"/none/{ID}/{ID}-json.log")).name == ID[:12]


def test_packed_files_and_our_own_are_left_out(tmp_path: Path) -> None:
    for name in ("a.log", "a.log.gz", "gpudiag.log", f"p_n_gpudiag-{ID}.log"):
        (tmp_path / name).touch()
    assert [one.name for one in places([f"{tmp_path}/*"])] == ["a"]


def test_patterns_go_down_into_folders(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/x.log").touch()
    assert [one.name for one in places([f"{tmp_path}/**/*.log"])] == ["x"]


def test_error_files_are_looked_for_beside_the_ranks_logs() -> None:
    found = [place(Path("/log/r/attempt_0/1/stderr.log")), place(Path("/log/x.log"))]
    assert list(error_files(found, [])) == [Path("/log/r/attempt_0/1/error.json")]
