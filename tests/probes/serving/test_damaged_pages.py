"""Real pages, damaged at random, on the whole way from text to the rules that judge servers."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.probes.serving.copies import Copies
from gpudiag.probes.serving.scrape import Server, look

PAGES = [path.read_text() for path in sorted((Path(__file__).parent / "pages").glob("*.txt"))]
ODD = ['"', "\\", "{", "}", ",", "=", "\0", "é", "NaN", "-Inf", "1e999", "-1", 'le="x"', "\n", " "]


class Answers:
    """Stands for the exchange with a server: the page it was given, for any question."""

    def __init__(self, page):
        self.page = page

    def __call__(self, url, deadline):
        return self

    def ask(self, method, path, headers, body=None):
        yield self.page

    def close(self):
        pass


def damaged(rng):
    text = rng.choice(PAGES)
    for _ in range(rng.randrange(1, 12)):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(ODD) + text[at + rng.randrange(6) :]
    return text[: rng.randrange(len(text))] if rng.random() < 0.2 else text


def through(count, seed):
    """Damages pages, looks at each a cadence after the last, and evaluates; gives the engine."""
    rules = {name: rule for name, rule in RULES.items() if name.startswith("serving-")}
    limits = {name: default_limits(rule) for name, rule in rules.items()}
    engine = Engine(rules, limits, window_for(rules), Book(rules))
    rng, copies = random.Random(seed), Copies(time.monotonic)
    for number in range(count):
        page, now = damaged(rng).encode("utf-8", "surrogatepass"), 5.0 * number
        engine.ingest(look(Server("s", "http://h"), now, copies, Answers(page)).samples)
        if number % 50 == 49:
            engine.evaluate(now)
    return engine


def test_no_damage_stops_the_agent_or_a_rule(caplog):
    engine = through(300, seed=3)
    assert engine.window.value("gpudiag_serving_up", server="s") == 1.0
    assert caplog.text == ""


@pytest.mark.long
def test_no_damage_of_ten_thousand_stops_the_agent_or_a_rule(caplog):
    through(10_000, seed=4)
    assert caplog.text == ""
