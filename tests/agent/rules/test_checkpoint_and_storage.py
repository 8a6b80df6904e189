import pytest

from gpudiag.agent.rules._storage_words import storage_kind
from gpudiag.agent.rules.contract import Healthy, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "checkpoint-and-storage"
OF = '{job="llama",rank="0"}'
TOOK = f"gpudiag_train_checkpoint_seconds{OF}"
SAVES = f"gpudiag_checkpoint_saves_total{OF}"
REFUSED = f"gpudiag_checkpoint_upload_failures_total{OF}"
LEFT = 'gpudiag_filesystem_available_bytes{mountpoint="/ckpt"}'
SIZE = {'gpudiag_filesystem_size_bytes{mountpoint="/ckpt"}': "1e13x39"}


def found(series):
    return diagnoses(judge(SYMPTOM, series, every=60.0)).get("llama")


def test_saves_as_ever_are_healthy():
    said = judge(SYMPTOM, {TOOK: "0x9 30 0x9 33 0x9 29 0x9"}, every=60.0)
    assert said == [Healthy(subject(job="llama"))]


def test_a_gauge_that_holds_its_value_counts_each_save_once():
    verdict = found({TOOK: "30x10 32x10 31x10 90x10 95x10"})
    assert (verdict.cause, verdict.evidence[0].value) == ("checkpoint-slow", 90.0)


@pytest.mark.parametrize(("counts", "fires"), [("0x20 1x20", False), ("0x20 1x10 2x10", True)])
def test_one_failed_upload_is_what_a_retry_is_for(counts, fires):
    assert (found({REFUSED: counts}) is not None) is fires


def test_a_save_that_fails_for_no_known_reason_is_open():
    failed = f"gpudiag_checkpoint_failures_total{OF}"
    assert found({SAVES: "1x40", failed: "0x30 1x9"}).cause == "undetermined"


def test_room_that_comes_back_is_pruned():
    saves = {SAVES: "0x9 1x9 2x9 3x9", **SIZE}
    kept = "4e12x9 3.2e12x9 2.4e12x9 1.6e12x9"
    pruned = "2.4e12x9 1.6e12x3 2.4e12x5 1.6e12x3 2.4e12x5 1.6e12x3 2.4e12x3"
    assert found({**saves, LEFT: kept}).cause == "old-checkpoints-not-pruned"
    assert found({**saves, LEFT: pruned}) is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("checksum mismatch for /ckpt/step_4/rank3.pt: expected 9f2c", "checksum"),
        ("sha256 mismatch for cached wheel", ""),
        ("OSError: [Errno 28] No space left on device: '/ckpt/a.pt'", "space"),
        ("upload of checkpoint step_2 failed after 3 retries: 503 Slow Down", "upload"),
        ("uploaded checkpoint step_2000 in 31 s", ""),
    ],
)
def test_words(line, kind):
    assert storage_kind(line) == kind
