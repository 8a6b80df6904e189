"""What is a secret goes, and what a diagnosis needs stays."""

from __future__ import annotations

import pytest

from gpudiag.agent.bundling.redact import GONE, Redactor, environment_secrets


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abc.def-1", f"Authorization: {GONE} {GONE}"),
        ("curl -H 'X-Api-Key: s3cr3t'", f"curl -H 'X-Api-Key: {GONE}'"),
        ('{"password": "p w"}', f'{{"password": {GONE}}}'),
        ("https://u:pw@h.io/services/T0/B0/xyz?k=v now", f"https://h.io/{GONE} now"),
        ("redis://:pw@cache:6379", f"redis://cache:6379/{GONE}"),
        ("vllm serve --model /data/private --port 8000", f"vllm serve --model {GONE} --port 8000"),
        ("train.py --data=/x/y --lr=0.1", f"train.py --data={GONE} --lr=0.1"),
        ("WANDB_PROJECT=own OMP_NUM_THREADS=8", f"WANDB_PROJECT={GONE} OMP_NUM_THREADS=8"),
        ("login with hf_abcdefghijkl", f"login with {GONE}"),
        ("key AKIAABCDEFGHIJKLMNOP used", f"key {GONE} used"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", f"jwt {GONE}"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", GONE),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_goes(text, left):
    assert Redactor().text(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[rank0]:[E] Watchdog caught collective operation timeout: SeqNum=12, OpType=ALLREDUCE",
        "gpudiag_serving_generation_tokens_total rose by 30, max_tokens: 24",
        "GPU-0a1b2c3d-dead-beef runs at 58 % of the clock of its peers: rank 3 - slow",
        "out of 16384 tokens: 12000 used; step 100 -> 101",
    ],
)
def test_what_a_diagnosis_needs_stays(text):
    assert Redactor().text(text) == text


def test_what_was_told_goes_wherever_it_stands_the_longer_first():
    redactor = Redactor(["hush", "hush-hush", "ab"])
    assert redactor.text("hush-hush, shushed, ab") == f"{GONE}, s{GONE}ed, ab"


def test_json_is_looked_through_to_its_leaves_and_its_keys():
    plain = {"a": ["hush", 5, None], "hush": {"X_TOKEN": "tiny", "n": 1.5}}
    assert Redactor(["hush"]).plain(plain) == {
        "a": [GONE, 5, None],
        GONE: {"X_TOKEN": GONE, "n": 1.5},
    }


def test_the_environment_names_its_secrets():
    environ = {"HF_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/root", "DB_PASSWORD": "p"}
    assert environment_secrets(environ) == ["t", "s", "p"]
