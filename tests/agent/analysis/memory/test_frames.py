from __future__ import annotations

from typing import Any

import pytest

from gpudiag.agent.analysis.memory.frames import Hint, Layer, Site, Sites, read_frame
from tests.allocsim.stacks import ALLOCATOR, CALLS, MAIN, backward_of, frame, torch, user


def site(*frames: Any) -> Site:
    sites = Sites()
    return sites.found[sites.number(list(frames))]


def test_the_first_line_shown_is_the_users():
    found = site(*ALLOCATOR, torch("nn/functional.py", 9, "linear"), *CALLS, user("m.py", 4, "f"))
    assert (found.place, found.function) == ("/workspace/llm/m.py:4", "f")


def test_a_library_between_is_named_beside_it():
    trainer = frame("/x/site-packages/transformers/trainer.py", 12, "training_step")
    found = site(trainer, user("train.py", 3, "main"))
    assert (found.line, found.via) == (3, "transformers/trainer.py:12 training_step")


def test_the_id_outlives_moved_lines_other_folders_and_native_frames():
    here = site(user("train.py", 57, "step"), *MAIN)
    moved = frame("/home/b/llm/train.py", 63, "step")
    main = (
        frame("/home/b/llm/train.py", 140, "main"),
        frame("/home/b/llm/train.py", 1, "<module>"),
    )
    assert here.id == site(*ALLOCATOR, moved, *main).id
    assert here.id != site(user("train.py", 57, "other"), *MAIN).id


def test_equal_lists_of_the_same_frames_are_one_site():
    sites = Sites()
    frames = [user("train.py", 57, "step"), *MAIN]
    assert sites.number(frames) == sites.number(list(frames)) == 1
    assert sites.number([]) == sites.number(None) == 0


def test_frames_of_the_profiler_are_read_from_their_names():
    found = read_frame({"filename": "none", "line": 0, "name": "train.py(47): step"})
    assert (found.layer, found.file, found.line, found.name) == (Layer.USER, "train.py", 47, "step")


def test_autograds_threads_are_named_by_their_operator():
    found = site(*backward_of("AddmmBackward0", native_too=True))
    assert (found.file, found.function) == ("(backward)", "AddmmBackward0")
    assert found.hints & Hint.BACKWARD


@pytest.mark.parametrize("raw", [None, 3, {}, {"filename": 3, "line": "x", "name": None}, []])
def test_frames_of_nonsense_are_noise(raw):
    assert read_frame(raw).layer is Layer.NOISE
    assert site(raw).line == 0


@pytest.mark.parametrize(
    "file", ["<frozen runpy>", "/usr/lib/python3.11/threading.py", "/tmp/torchinductor_u/a/b.py"]
)
def test_pythons_and_inductors_own_code_is_not_the_users(file):
    assert read_frame({"filename": file, "line": 1, "name": "f"}).layer < Layer.LIBRARY
