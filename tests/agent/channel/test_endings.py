import signal

import pytest

from gpudiag.agent.channel.endings import Endings, goodbye
from gpudiag.agent.channel.packets import Bye, Exit, Metrics
from gpudiag.agent.channel.place import Place
from gpudiag.agent.channel.rank import Rank
from gpudiag.probes import Event
from tests.agent.channel.hook import hello

KILL = "Memory cgroup out of memory: Killed process 4242 (python) total-vm:9kB, anon-rss:8kB"


def rank(place=None, pid=4242):
    return Rank(hello(3, pid), pid, "llama", place or Place())


def end(endings, who):
    endings.lost(who, 100.0)
    assert endings.settle(100.0) == []
    (event,) = endings.settle(100.6)
    return event


def test_a_death_of_which_nothing_is_known():
    event = end(Endings(), rank())
    assert (event.source, event.type, event.time) == ("process", "exit", 100.0)
    assert event.line == "exit pid=4242 rank=3 reason=lost"
    assert "code" not in event.fields


def test_the_kernels_kill_names_the_process():
    endings = Endings()
    endings.observe([], [Event(99.0, "kmsg", KILL)])
    event = end(endings, rank())
    assert event.line == "exit pid=4242 rank=3 code=-9 signal=SIGKILL reason=oom-kill"


def test_an_old_kill_or_anothers_is_not_it():
    endings = Endings()
    endings.observe([], [Event(10.0, "kmsg", KILL), Event(99.0, "kmsg", KILL.replace("42", "7"))])
    assert end(endings, rank()).fields["reason"] == "lost"


def test_the_cgroups_counter_tells_in_a_pod(tmp_path):
    counter = tmp_path / "memory.events"
    counter.write_text("oom_kill 1\n")
    who = rank(Place(oom_counter=counter, oom_kills=1))
    counter.write_text("oom_kill 2\n")
    assert end(Endings(), who).fields["reason"] == "oom-kill"


@pytest.mark.parametrize(
    ("code", "words"),
    [(1, "code=1"), (0, "code=0"), (-11, "code=-11 signal=SIGSEGV"), (-99, "code=-99 signal=99")],
)
def test_the_parents_word_gives_the_code(code, words):
    endings = Endings()
    endings.lost(rank(), 100.0)
    assert endings.told(Exit(time=100.0, pid=4242, code=code), 100.1) == []
    (event,) = endings.settle(100.1)
    assert event.line == f"exit pid=4242 rank=3 {words}"
    assert endings.settle(105.0) == []


def test_the_parent_of_no_rank_is_told_too():
    said = Exit(time=1.0, pid=9, code=-signal.SIGTERM, name="torchrun")
    (event,) = Endings().told(said, 1.0)
    assert event.line == "exit pid=9 name=torchrun code=-15 signal=SIGTERM"


def process(proc, state="S"):
    folder = proc / "4242"
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(f"4242 (python) {state} 1 " + "0 " * 17 + "77 0\n")


def test_a_process_that_lives_has_only_let_go(tmp_path):
    process(tmp_path)
    endings = Endings(tmp_path)
    endings.lost(rank(Place(started=77)), 100.0)
    assert endings.settle(104.0) == []
    (event,) = endings.settle(105.0)
    assert (event.type, event.source) == ("detached", "torch")


def test_one_that_takes_long_to_end_is_waited_for(tmp_path):
    process(tmp_path)
    endings = Endings(tmp_path)
    endings.lost(rank(Place(started=77)), 100.0)
    assert endings.settle(103.0) == []
    process(tmp_path, "Z")
    assert endings.settle(103.1) == []
    (event,) = endings.settle(103.7)
    assert (event.type, event.time) == ("exit", 100.0)


def test_one_that_connects_again_has_not_ended():
    endings = Endings()
    endings.lost(rank(), 100.0)
    assert endings.back(4242)
    assert endings.settle(200.0) == []


def test_a_goodbye_has_its_reason_and_no_code():
    event = goodbye(rank(), Bye(reason="exception", line="ValueError: no"), 5.0)
    assert event.line == "exit pid=4242 rank=3 reason=exception ValueError: no"
    assert (event.source, event.fields["job"]) == ("torch", "llama")


def test_the_last_record_is_kept_as_evidence():
    who = rank()
    who.take(Metrics(time=99.0, values=[("gpudiag_train_steps_total", {}, 41.0)]), 99.0)
    fields = end(Endings(), who).fields
    assert fields["last_step"] == "41"
    assert "gpudiag_train_steps_total" in fields["last_record"]
