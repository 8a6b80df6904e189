import random
from typing import Any

import pytest

from gpudiag.agent.analysis.oom_meaning import meanings
from gpudiag.agent.analysis.oom_text import find
from tests.agent.analysis.oom_samples import SAMPLES
from tests.allocsim.scenarios import FRAGMENTS

GIB = 2**30
MIB = 2**20
NOW = SAMPLES["2.13, pools"].text


def gib(value: float) -> int:
    return int(value * GIB)


@pytest.mark.parametrize("name", SAMPLES)
def test_fields_of_every_family(name: str) -> None:
    sample = SAMPLES[name]
    (found,) = find(sample.text)
    assert found.kind == sample.kind
    got = {field: getattr(found.figures, field) for field in sample.fields}
    assert got == {
        field: gib(value) if isinstance(value, float) else value
        for field, value in sample.fields.items()
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_what_every_family_implies(name: str) -> None:
    sample = SAMPLES[name]
    assert meanings(find(sample.text)[0])[0].cause == sample.cause


@pytest.mark.parametrize("width", [25, 40, 80])
@pytest.mark.parametrize("prefix", ["", "[rank1]: ", "(Runner pid=104449) ", "web-1  | ", "│ "])
def test_wrapped_anywhere_it_reads_the_same(width: int, prefix: str) -> None:
    (whole,) = find(NOW)
    head, rest = NOW[:40], NOW[40:]
    pieces = [head, *(rest[at : at + width] for at in range(0, len(rest), width))][:39]
    (found,) = find("\n".join(prefix + piece for piece in pieces))
    assert found.figures == whole.figures


@pytest.mark.parametrize("cut", range(60, 400, 17))
def test_cut_short_it_says_what_is_left(cut: int) -> None:
    (found,) = find(NOW[:cut])
    (whole,) = find(NOW)
    fields = ("requested", "total", "free", "own", "allocated")
    values = [getattr(found.figures, field) for field in fields]
    assert all(v in (None, getattr(whole.figures, f)) for f, v in zip(fields, values, strict=True))
    assert meanings(found)


def test_without_its_head_it_is_found_by_its_body() -> None:
    (found,) = find(NOW[NOW.index("Tried") :])
    assert found.figures.requested == gib(9.28)


def test_ranks_that_say_the_same_are_one_message() -> None:
    (found,) = find("\n".join(f"[rank{n}]: {NOW}" for n in range(4)))
    assert (found.times, found.ranks) == (4, ("0", "1", "2", "3"))


def test_two_requests_are_two_messages() -> None:
    found = find(NOW + "\n" + NOW.replace("9.28", "1.25"))
    assert [one.figures.requested for one in found] == [gib(9.28), gib(1.25)]
    assert [one.line for one in found] == [1, 2]


@pytest.mark.parametrize("make", FRAGMENTS, ids=lambda make: make.__name__)
def test_what_the_allocator_itself_says_of_its_fragments(make: Any) -> None:
    case = make()
    (found,) = find(case.error)
    assert found.figures.requested == pytest.approx(case.truth.failed, rel=1e-3)
    wanted = "private-pools-stranded" if "private" in case.truth.cause else "fragmentation"
    assert meanings(found)[0].cause == wanted


def test_talk_of_memory_is_no_message() -> None:
    assert find("allocated memory 12.3 GiB, out of memory budget 40 GiB; max seq len 4096") == []


def _fuzz(count: int) -> None:
    chance = random.Random(11)
    texts = [sample.text for sample in SAMPLES.values()]
    for _ in range(count):
        text = list(chance.choice(texts) + chance.choice(("\n", " ", "")) + chance.choice(texts))
        for _ in range(chance.randrange(1, 30)):
            at = chance.randrange(len(text))
            text[at] = chance.choice(("", "\n", "\x00", "9" * 40, "(", ".", "[rank0]: ", "é", " "))
        for found in find("".join(text)):
            assert 0.0 < meanings(found)[0].confidence < 1.0


def test_broken_texts() -> None:
    _fuzz(500)


@pytest.mark.long
def test_ten_thousand_broken_texts() -> None:
    _fuzz(10_000)
