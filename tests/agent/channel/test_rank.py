import math

from gpudiag.agent.channel.packets import Metrics
from gpudiag.agent.channel.place import Place
from gpudiag.agent.channel.rank import MAX_SERIES, Rank
from tests.agent.channel.hook import hello


def rank(**more):
    return Rank(hello(1, **more), 77, "llama", Place(labels=(("pod", "llama-0"),)))


def info(samples):
    return {s.metric: dict(s.labels) for s in samples if s.value == 1.0}


def packet(*values, time=100.0):
    return Metrics(time=time, values=list(values))


def test_identity_is_joined_once():
    said = info(rank(local_rank=1, world_size=4, layout="dp=4").about(1.0, "GPU-a"))
    assert said["gpudiag_train_info"] == {
        "job": "llama",
        "rank": "1",
        "local_rank": "1",
        "world_size": "4",
        "layout": "dp=4",
        "pid": "77",
        "uuid": "GPU-a",
        "pod": "llama-0",
    }


def test_what_the_process_says_of_its_gpu_goes_first():
    assert info(rank(uuid="GPU-b").about(1.0, "GPU-a"))["gpudiag_train_info"]["uuid"] == "GPU-b"


def test_nothing_is_joined_by_the_number_of_a_foreign_namespace():
    who = Rank(hello(1, pid=5), 0, "llama", Place())
    assert info(who.about(1.0, "GPU-a"))["gpudiag_train_info"] == {"job": "llama", "rank": "1"}


def test_what_it_was_asked_for_is_told_where_it_says_so():
    assert "gpudiag_train_config_info" not in info(rank().about(1.0, ""))
    said = info(rank(config={"precision": "bf16", "odd": "x"}).about(1.0, ""))
    assert said["gpudiag_train_config_info"] == {"job": "llama", "rank": "1", "precision": "bf16"}


def test_the_old_identity_ends_where_it_changes():
    who = rank()
    who.about(1.0, "")
    changed = who.about(2.0, "GPU-a")
    assert sorted(math.isnan(s.value) for s in changed) == [False, True]


def test_readings_get_job_and_rank_that_cannot_be_forged():
    row = ("gpudiag_train_phase_seconds", {"phase": "eval", "rank": "9"}, 1.5)
    (sample,) = rank().take(packet(row), 100.0)
    assert dict(sample.labels) == {"job": "llama", "phase": "eval", "rank": "1"}


def test_a_wrong_clock_gets_the_agents():
    row: tuple[str, dict[str, str], float] = ("gpudiag_train_loss", {}, 1.0)
    assert rank().take(packet(row, time=100.0), 159.0)[0].time == 100.0
    assert rank().take(packet(row, time=100.0), 9e9)[0].time == 9e9


def test_labels_without_end_are_cut_and_counted():
    who = rank()
    for number in range(MAX_SERIES + 5):
        who.take(packet(("gpudiag_train_phase_seconds", {"phase": str(number)}, 1.0)), 100.0)
    assert who.dropped == 5


def test_every_series_ends_with_its_process():
    who = rank()
    who.about(1.0, "")
    who.take(packet(("gpudiag_train_loss", {}, 1.0)), 100.0)
    ended = who.stale(101.0)
    assert {s.metric for s in ended} == {"gpudiag_train_info", "gpudiag_train_loss"}
    assert all(math.isnan(s.value) for s in ended)
    assert who.stale(102.0) == []
