import math

import pytest

from gpudiag.probes.serving.compare import Answer, cosine, likeness, prefix_share, unsound


@pytest.mark.parametrize(
    ("measure", "recorded", "given", "alike"),
    [
        ("exact", "Mon, Tue", "Mon, Tue", 1.0),
        ("exact", "Mon, Tue", "mon tue", 0.0),
        ("normalised", "Mon, Tue.", " mon  tue", 1.0),
        ("normalised", "Mon, Tue", "Mon, Wed", 0.0),
        ("prefix", "a b c d", "a b x d", 0.5),
    ],
)
def test_texts(measure, recorded, given, alike):
    assert likeness(measure, Answer(text=recorded), Answer(text=given)) == alike


def test_a_text_cut_by_another_limit_is_not_less_alike():
    assert prefix_share("a b c d e f", "a b c d") == 1.0


def test_a_single_right_token_is_no_answer():
    assert prefix_share("a b c d e f", "a") < 0.5


def test_what_follows_the_recorded_text_is_not_held_against_it():
    assert prefix_share("a b", "a b c d") == 1.0


def test_vectors_by_their_angle():
    assert cosine((1.0, 0.0), (1.0, 1.0)) == pytest.approx(math.sqrt(0.5))
    assert cosine((2.0, 2.0), (1.0, 1.0)) == pytest.approx(1.0)


def test_half_precision_does_not_make_a_vector_another():
    vector = [math.sin(i) for i in range(768)]
    rounded = [round(v * 256) / 256 for v in vector]
    assert 0.999 < cosine(vector, rounded) < 1.0


@pytest.mark.parametrize("other", [(1.0, 0.0, 0.0), (-1.0, 0.0), (0.0, 0.0)])
def test_no_likeness_to_another_dimension_an_opposite_or_nothing(other):
    assert cosine((1.0, 0.0), other) == 0.0


@pytest.mark.parametrize(
    ("recorded", "given", "alike"),
    [
        (Answer(label="joy", score=0.9), Answer(label="joy", score=0.87), 0.97),
        (Answer(label="joy", score=0.9), Answer(label="fear", score=0.9), 0.0),
        (Answer(label="1", score=-8.0), Answer(label="1", score=-7.6), 0.95),
        (Answer(label="joy"), Answer(label="joy"), 1.0),
    ],
)
def test_labels(recorded, given, alike):
    assert likeness("label", recorded, given) == pytest.approx(alike)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(text=" \n"), "empty"),
        (Answer(text="!" * 24), "the same token 24 times over"),
        (Answer(text="the " * 12), "the same token 12 times over"),
        (Answer(text="\ufffd\ufffd a"), "no characters"),
        (Answer(vector=(0.1, math.nan)), "NaN"),
        (Answer(vector=(0.1, math.inf)), "NaN or infinite"),
        (Answer(vector=(0.0, 0.0)), "are 0"),
        (Answer(label="joy", score=math.nan), "NaN"),
    ],
)
def test_what_no_sound_answer_is(answer, why):
    assert why in unsound(answer)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(text="Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday."),
        Answer(text="星期一、星期二、星期三"),
        Answer(text="-------"),
        Answer(vector=(0.1, -0.2)),
        Answer(label="0", score=0.0),
    ],
)
def test_what_may_be_one(answer):
    assert unsound(answer) == ""
