import json

from gpudiag.probes.serving.canary_api import apis
from gpudiag.probes.serving.canary_target import Target


def target(api="openai-chat", **changes):
    settings = {"measure": "prefix", "tolerance": 0.2, "prompt": 'say "hi"', **changes}
    return Target(name="chat", url="http://h", api=apis()[api], **settings)


def test_the_request_is_filled_in():
    body = json.loads(target(max_tokens=7).request("llama"))
    assert body["messages"][0]["content"] == 'say "hi"'
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("llama", 7, 0)


def test_a_body_of_ones_own_is_laid_over():
    body = json.loads(target("sglang-generate", body={"sampling_params": {"top_k": 1}}).request(""))
    assert body["sampling_params"] == {"temperature": 0, "max_new_tokens": 24, "top_k": 1}


def test_a_model_of_any_name_stays_within_its_part_of_the_path():
    assert target("triton-infer").path("a/../b") == "/v2/models/a%2F..%2Fb/infer"


def test_another_question_has_another_digest():
    assert target().digest() == target(model="llama").digest() != target(prompt="else").digest()


def test_an_encoder_is_charged_for_its_prompt_alone():
    assert target("tei-embed").cost() < target("tgi-generate").cost()
