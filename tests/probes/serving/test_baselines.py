import stat

import pytest

from gpudiag.probes.serving.baselines import Baselines
from gpudiag.probes.serving.canary_api import apis
from gpudiag.probes.serving.canary_target import Target
from gpudiag.probes.serving.compare import Answer

MONDAY, TUESDAY = Answer(text="mon tue wed"), Answer(text="one two three")


def target(name="chat", **changes):
    settings = {"measure": "prefix", "tolerance": 0.2, "prompt": "days", **changes}
    return Target(name=name, url="http://h", api=apis()["openai-chat"], **settings)


@pytest.fixture
def held(tmp_path):
    return Baselines(tmp_path / "canary")


def taught(held, answer=MONDAY, model="llama", of=None):
    return [held.judge(of or target(), answer, model, "v1") for _ in range(3)]


def test_three_healthy_answers_make_a_baseline(held):
    said = taught(held)
    assert [one.likeness for one in said] == [None, None, None]
    assert [bool(one.news) for one in said] == [False, False, True]
    assert held.judge(target(), TUESDAY, "llama", "v1").likeness == 0.0


def test_it_outlives_the_agent_for_its_owner_alone(held, tmp_path):
    taught(held)
    again = Baselines(tmp_path / "canary")
    assert again.judge(target(), MONDAY, "llama", "v1").likeness == 1.0
    (file,) = (tmp_path / "canary").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_another_model_is_recorded_anew_and_said(held):
    taught(held)
    turned = held.judge(target(), TUESDAY, "qwen", "v1")
    assert turned.likeness is None
    assert "qwen, it was llama" in turned.news
    taught(held, TUESDAY, "qwen")
    assert held.judge(target(), TUESDAY, "qwen", "v1").likeness == 1.0


def test_a_model_that_is_not_named_for_once_is_the_same(held):
    taught(held)
    assert held.judge(target(), TUESDAY, "", "").likeness == 0.0


def test_another_version_keeps_the_baseline_and_is_said_once(held):
    taught(held)
    turns = [held.judge(target(), MONDAY, "llama", "v2") for _ in range(2)]
    assert [one.likeness for one in turns] == [1.0, 1.0]
    assert ["v2" in one.news for one in turns] == [True, False]


def test_another_question_is_recorded_anew(held):
    taught(held)
    assert held.judge(target(prompt="months"), TUESDAY, "llama", "v1").likeness is None


def test_answers_that_differ_among_themselves_make_none(held):
    for answer in (MONDAY, TUESDAY):
        held.judge(target(), answer, "llama", "")
    assert "differ among themselves" in held.judge(target(), MONDAY, "llama", "").news
    assert held.compared(target(), MONDAY) is None


def test_a_copy_is_compared_with_the_other_and_teaches_it_nothing(held):
    copy = target("chat-int4", baseline="chat")
    assert held.judge(copy, TUESDAY, "llama-awq", "").likeness is None
    taught(held)
    assert held.judge(copy, TUESDAY, "llama-awq", "").likeness == 0.0


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 99}', "nonsense"])
def test_a_damaged_file_is_recorded_anew(held, tmp_path, text):
    taught(held)
    (tmp_path / "canary/chat.json").write_text(text)
    assert held.judge(target(), TUESDAY, "llama", "").likeness is None


def test_a_removed_file_too(held, tmp_path):
    taught(held)
    (tmp_path / "canary/chat.json").unlink()
    taught(held, TUESDAY)
    assert held.judge(target(), TUESDAY, "llama", "v1").likeness == 1.0


def test_a_name_cannot_leave_the_folder(held, tmp_path):
    taught(held, of=target("../../x"))
    assert [file.name for file in (tmp_path / "canary").iterdir()] == ["..%2F..%2Fx.json"]


def test_a_disk_that_refuses_leaves_it_in_memory(tmp_path):
    (tmp_path / "file").touch()
    held = Baselines(tmp_path / "file" / "canary")
    taught(held)
    assert held.judge(target(), MONDAY, "llama", "v1").likeness == 1.0
