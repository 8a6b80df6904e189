import json
import math

import pytest

from gpudiag.probes.serving.canary_answer import streamed, whole
from gpudiag.probes.serving.canary_api import apis
from gpudiag.probes.serving.canary_fetch import Unanswered
from gpudiag.probes.serving.compare import Answer

CHAT = {"model": "llama", "choices": [{"message": {"role": "assistant", "content": "Monday"}}]}


def read(api, document):
    return whole(apis()[api], json.dumps(document).encode()).answer


def refused(api, raw):
    with pytest.raises(Unanswered) as caught:
        whole(apis()[api], raw)
    return caught.value.outcome


@pytest.mark.parametrize(
    ("api", "document", "answer"),
    [
        ("openai-chat", CHAT, Answer(text="Monday")),
        ("openai-completions", {"choices": [{"text": " Thursday"}]}, Answer(text=" Thursday")),
        ("sglang-generate", {"text": "Thursday", "meta_info": {}}, Answer(text="Thursday")),
        ("tgi-generate", {"generated_text": "Thu"}, Answer(text="Thu")),
        ("triton-infer", {"outputs": [{"name": "o", "data": ["Hallo"]}]}, Answer(text="Hallo")),
        ("openai-embeddings", {"data": [{"embedding": [1, 0.5]}]}, Answer(vector=(1.0, 0.5))),
        ("tei-embed", [[0.1, 0.2]], Answer(vector=(0.1, 0.2))),
        (
            "tei-predict",
            [{"score": 0.1, "label": "fear"}, {"score": 0.9, "label": "joy"}],
            Answer(label="joy", score=0.9),
        ),
        (
            "vllm-classify",
            {"data": [{"label": "LABEL_1", "probs": [0.2, 0.8], "num_classes": 2}]},
            Answer(label="LABEL_1", score=0.8),
        ),
        (
            "tei-rerank",
            [{"index": 1, "score": 0.99}, {"index": 0, "score": 0.01}],
            Answer(label="1", score=0.99),
        ),
        (
            "vllm-rerank",
            {"results": [{"index": 1, "document": {}, "relevance_score": 0.97}]},
            Answer(label="1", score=0.97),
        ),
        ("vllm-score", {"data": [{"index": 1, "score": 0.5}]}, Answer(label="1", score=0.5)),
    ],
)
def test_each_api_answers_in_its_own_way(api, document, answer):
    assert read(api, document) == answer


def test_a_model_that_only_thought_has_said_its_thoughts():
    message = {"content": None, "reasoning_content": "Okay, the user"}
    assert read("openai-chat", {"choices": [{"message": message}]}).text == "Okay, the user"


def test_the_model_names_itself():
    assert whole(apis()["openai-chat"], json.dumps(CHAT).encode()).model == "llama"


@pytest.mark.parametrize("raw", [b"[[0.1, NaN]]", b"[[0.1, null]]"])
def test_nan_is_read_as_such_however_it_is_spelled(raw):
    assert math.isnan(whole(apis()["tei-embed"], raw).answer.vector[1])


def test_a_nan_among_good_scores_is_not_lost():
    raw = b'[{"index": 1, "score": 0.9}, {"index": 0, "score": NaN}]'
    score = whole(apis()["tei-rerank"], raw).answer.score
    assert score is not None
    assert math.isnan(score)


@pytest.mark.parametrize(
    ("api", "raw"),
    [
        ("openai-chat", b"<html>"),
        ("openai-chat", b"[" * 100_000),
        ("openai-chat", b'{"choices": [{"message": {"content": 7}}]}'),
        ("tei-embed", b'{"a": 1}'),
        ("tei-embed", b'[["x"]]'),
        ("tei-predict", b"[]"),
        ("tei-predict", b"[7]"),
    ],
)
def test_what_is_no_answer_is_garbage(api, raw):
    assert refused(api, raw) == "garbage"


def sse(*documents, end=b"data: [DONE]\n\n"):
    lines = [b"data: " + json.dumps(d).encode() + b"\n\n" for d in documents]
    whole = b": ping\n\n" + b"".join(lines) + end
    return [whole[i : i + 7] for i in range(0, len(whole), 7)]


def delta(text):
    return {"model": "m", "choices": [{"delta": {"content": text}}]}


def test_a_streamed_answer_is_put_together_and_its_first_piece_timed():
    said = streamed(apis()["openai-chat"], sse(delta(""), delta("Mon"), delta("day")), lambda: 5.0)
    assert (said.answer.text, said.model, said.first_at) == ("Monday", "m", 5.0)


def test_a_cumulative_stream_is_not_added_up():
    pieces = sse({"text": "Mon"}, {"text": "Monday"})
    assert streamed(apis()["sglang-generate"], pieces, float).answer.text == "Monday"


def test_a_stream_whose_last_piece_has_it_all():
    pieces = sse(
        {"token": {"text": "Mon"}, "generated_text": None},
        {"token": {"text": "day"}, "generated_text": "Monday"},
        end=b"",
    )
    assert streamed(apis()["tgi-generate"], pieces, float).answer.text == "Monday"


@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        (sse(delta("Mon"), end=b""), "truncated"),
        (sse(delta("Mon"), end=b"data: {"), "truncated"),
        (sse({"error": "CUDA error"}), "server_error"),
        (sse({"error": "Model is overloaded"}), "busy"),
    ],
)
def test_a_stream_that_does_not_end_well(pieces, outcome):
    with pytest.raises(Unanswered) as caught:
        streamed(apis()["openai-chat"], pieces, float)
    assert caught.value.outcome == outcome
