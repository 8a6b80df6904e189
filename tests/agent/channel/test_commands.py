import json
import threading

import pytest

from gpudiag.agent.channel.commands import Commands, Refused, Result, refusal, step_for
from gpudiag.agent.channel.packets import Reply
from gpudiag.agent.channel.place import Place
from gpudiag.agent.channel.rank import Rank
from gpudiag.probes.errors import UsageError
from tests.agent.channel.hook import hello


def rank(number, step=10.0, size=2, pace=1.0):
    who = Rank(hello(number, number + 1, world_size=size), 0, "llama", Place())
    who.step, who.step_seconds = step, pace
    return who


TWO = [rank(0, 10.0), rank(1, 11.0)]


def test_the_step_lies_ahead_of_the_furthest_rank():
    assert step_for(TWO) == 14
    assert step_for([rank(0, 10.0, pace=0.01)]) == 310
    assert step_for([rank(0, 10.0, pace=60.0)]) == 12
    assert step_for([rank(0, 10.0, pace=None)]) is None


@pytest.mark.parametrize(
    ("name", "ranks", "why"),
    [
        ("checkpoint", TWO, ""),
        ("checkpoint", [rank(0, size=4)], "shared lease"),
        ("checkpoint", [rank(0, size=None)], "not known"),
        ("gc", [rank(0, size=4)], ""),
        ("gc", [rank(0, step=None)], "no step yet"),
        ("checkpoint", [rank(0, pace=None), rank(1, pace=None)], "not known yet"),
        ("checkpoint", [rank(0, pace=None), rank(1)], ""),
        ("gc", [rank(0, pace=None)], ""),
        ("dump_stacks", [rank(0, step=None, size=4)], ""),
        ("gc", [], "is connected"),
    ],
)
def test_what_is_refused(name, ranks, why):
    said = refusal("llama", name, ranks)
    assert why in said
    assert bool(said) == bool(why)


def test_an_unknown_command_is_a_mistake_of_the_caller():
    with pytest.raises(UsageError, match="no such command"):
        refusal("llama", "explode", TWO)


def test_a_refused_command_is_sent_to_nobody():
    sent: list[dict[int, bytes]] = []
    with pytest.raises(Refused, match="shared lease"):
        Commands(lambda _: [rank(0, size=4)], sent.append).run("llama", "checkpoint", {}, 1.0)
    assert sent == []


def answer(commands, answers, packets):
    for who in TWO:
        number = json.loads(packets[who.pid])["id"]
        if who.rank in answers:
            reply = Reply(id=number, ok=answers[who.rank], detail="done")
            threading.Timer(0.01, commands.reply, (who, reply)).start()


def run(answers, timeout=60.0):
    commands = Commands(lambda _: TWO, lambda packets: answer(commands, answers, packets))
    return commands.run("llama", "checkpoint", {}, timeout)


def test_every_rank_answers():
    assert run({0: True, 1: False}) == [Result(0, True, "done"), Result(1, False, "done")]


def test_a_silent_rank_costs_only_the_timeout():
    assert run({0: True}, 0.1)[1] == Result(1, False, "no answer in time")


def test_a_rank_that_dies_meanwhile_is_not_waited_for():
    commands = Commands(lambda _: TWO[:1], lambda _: commands.gone(TWO[0]))
    assert commands.run("llama", "gc", {}, 60.0) == [Result(0, False, "the process has ended")]


def test_an_answer_nobody_asked_for_is_not_taken():
    assert not Commands(lambda _: TWO, print).reply(TWO[0], Reply(id="x", ok=True))


def test_one_rank_alone_must_not_break_the_job():
    commands = Commands(lambda _: [], lambda _: None)
    with pytest.raises(Refused, match="one rank alone"):
        commands.run("llama", "checkpoint", {}, 1.0, rank=0)


class Late:
    """Two ranks that a command reaches too late so many times each, and that take the next."""

    def __init__(self, *times):
        self.left, self.steps, self.asked = dict(enumerate(times)), [], []
        self.commands = Commands(lambda _: TWO, self.send)

    def send(self, packets):
        for who in (who for who in TWO if who.pid in packets):
            packet = json.loads(packets[who.pid])
            self.steps.append(packet["at_step"])
            self.asked.append(who.rank)
            late = self.left[who.rank] > 0
            self.left[who.rank] -= 1
            ended = {"ended_step": packet["at_step"] + 100} if late else {}
            self.commands.reply(who, Reply(id=packet["id"], ok=not late, fields=ended))

    def run(self, name):
        return [result.ok for result in self.commands.run("llama", name, {}, 60.0)]


def test_a_command_that_came_too_late_is_asked_again_of_all_for_a_later_step():
    late = Late(1, 1)
    assert late.run("checkpoint") == [True, True]
    assert late.asked == [0, 1, 0, 1]
    first, again = sorted(set(late.steps))
    assert again > first + 100


def test_what_all_must_do_together_is_not_asked_again_once_one_has_done_it():
    late = Late(0, 1)
    assert late.run("micro_batch") == [True, False]
    assert late.asked == [0, 1]


def test_what_each_may_do_alone_is_asked_again_of_the_late_ones():
    late = Late(0, 2)
    assert late.run("gc") == [True, True]
    assert late.asked == [0, 1, 1, 1]


def test_it_is_asked_three_times_and_then_given_up():
    late = Late(99, 99)
    assert late.run("checkpoint") == [False, False]
    assert late.asked == [0, 1] * 3
