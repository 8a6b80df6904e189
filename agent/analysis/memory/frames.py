"""Stacks folded to what a person wrote: allocator, C++ and framework frames drop away.

The frame shown first is the innermost of the user's own code. The frames of libraries (a trainer,
a model hub) stay in the chain, those of torch and of Python itself do not.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

DEEPEST = 400
"""Frames of one stack that are looked at; recursion goes deeper than any diagnosis needs."""

KEPT = 16
_OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)")
_KERNEL = re.compile(r"autograd::generated::(\w+)::apply")
# The profiler writes its Python frames into the name: "train.py(47): step".
_PROFILED = re.compile(r"(.+?)\((\d+)\): (.+)")
_LIBRARIES = ("/site-packages/", "/dist-packages/")
_OF_TORCH = ("torch/", "functorch/", "triton/")
_PYTHON = re.compile(r"/lib/python3[^/]*/(?!site-packages|dist-packages)|^<|/torchinductor_")


class Layer(IntEnum):
    """Whose code a frame is."""

    NOISE = 0
    TORCH = 1
    LIBRARY = 2
    USER = 3


class Hint(IntEnum):
    """What a frame says of the memory asked for below it; bits."""

    BACKWARD = 1
    OPTIMIZER = 2
    FORWARD = 4
    SETUP = 8
    WORKSPACE = 16
    COMM = 32
    CACHE = 64
    SIDE = 128
    HOOK = 256
    JOINS = 512


_WORDS: tuple[tuple[Hint, re.Pattern[str]], ...] = (
    (
        Hint.BACKWARD,
        re.compile(
            r"autograd::Engine|_engine_run_backward|autograd::generated|AccumulateGrad"
            r"|torch/_tensor\.py:backward$|autograd/__init__\.py:(backward|grad)$"
        ),
    ),
    (Hint.OPTIMIZER, re.compile(r"optim[^:]*\.py:(_init_group|\w*step|\w*adam\w*|\w*sgd\w*)$")),
    (Hint.FORWARD, re.compile(r":forward$|_call_impl$|:__call__$|functional\.py:")),
    (
        Hint.SETUP,
        re.compile(
            r":(__init__|_apply|load_state_dict|from_pretrained|reset_parameters"
            r"|convert|load_model\w*|_load_\w+|init_weights|materialize\w*)$|nn/init\.py:"
        ),
    ),
    (Hint.WORKSPACE, re.compile(r"(?i)cublas\w*workspace|getworkspace|cudnn\w*(workspace|exec)")),
    (
        Hint.COMM,
        re.compile(r"c10d|ProcessGroup|torch/distributed/(distributed_c10d|fsdp|_functional)|nccl"),
    ),
    (Hint.CACHE, re.compile(r"(?i)kv_?cache|cache_utils|key_value|cache_engine")),
    (Hint.SIDE, re.compile(r"(?i)(^|[/_:.])(eval|valid|infer|predict|generat)\w*")),
    (Hint.HOOK, re.compile(r"(?i)hook")),
    (Hint.JOINS, re.compile(r"(?i)(at::_ops::|THPVariable_|_)(cat|concat|stack|nested_concat)\b")),
)
# What a library calls its own files says nothing of the user's phase or hooks.
_OF_THE_USER = Hint.SIDE | Hint.HOOK
_OF_THE_STACK = re.compile(r"(?i)_call_impl|full_backward|module\.py")


class Frame(NamedTuple):
    """One frame of one place; `hints` are bits of `Hint`, `op` an operator's name or ""."""

    layer: Layer
    file: str
    line: int
    name: str
    hints: int
    op: str


class Site(msgspec.Struct, frozen=True):
    """A call site: the user's line, and the chain of calls to it.

    `id` is stable across runs, machines and moved lines: it is made of function and file names.
    `via` is the library frame or operator below the user's line, "" where there is none.
    `chain` reads innermost first. A site without any frame has `id` "".
    """

    id: str
    file: str
    line: int
    function: str
    via: str
    hints: int
    chain: tuple[str, ...]

    @property
    def short(self) -> str:
        """The line with its last folder only: `llm/train.py:57`."""
        return f"{short(self.file)}:{self.line}" if self.line else self.place

    @property
    def place(self) -> str:
        """The line as people write it: `train.py:57`, its folders kept."""
        return f"{self.file}:{self.line}" if self.line else self.file or "(no frames)"


NOWHERE = Site("", "", 0, "", "", 0, ())
"""Memory asked for while nothing was recorded, or where no frame was kept."""


class Sites:
    """Numbers call sites, each stack looked at once however many entries share it.

    Frames and lists of frames are told apart by identity: the snapshot must stay in memory.
    """

    def __init__(self) -> None:
        self.found: list[Site] = [NOWHERE]
        self._frames: dict[int, Frame | None] = {}
        self._interned: dict[Frame, Frame] = {}
        self._lists: dict[int, int] = {}
        self._stacks: dict[int, int] = {}
        self._chains: dict[tuple[Any, ...], int] = {}

    def number(self, frames: Sequence[Any] | None) -> int:
        """The index in `found` of the site of a stack, innermost frame first."""
        if not frames:
            return 0
        known = self._lists.get(id(frames))
        if known is None:
            known = self._lists[id(frames)] = self._of_list(frames)
        return known

    def _of_list(self, frames: Sequence[Any]) -> int:
        if not isinstance(frames, list | tuple):
            return 0
        # Snapshots share frames and copy lists of them: equal lists are found by their frames.
        key = hash(tuple(map(id, frames)))
        known = self._stacks.get(key)
        if known is None:
            known = self._stacks[key] = self._of_stack(frames)
        return known

    def _telling(self, raw: Any) -> Frame | None:
        """The frame, one object for equal ones; None where it says nothing."""
        frame = read_frame(raw)
        if frame.layer or frame.hints or frame.op:
            return self._interned.setdefault(frame, frame)
        return None

    def _of_stack(self, frames: Sequence[Any]) -> int:
        table = self._frames
        seen: list[Frame] = []
        for raw in frames[:DEEPEST]:
            try:
                frame = table[id(raw)]
            except KeyError:
                frame = table[id(raw)] = self._telling(raw)
            if frame is not None:
                seen.append(frame)
        if not seen:
            return 0
        key = tuple(map(id, seen))
        number = self._chains.get(key)
        if number is None:
            number = self._chains[key] = len(self.found)
            self.found.append(_site(seen))
        return number


def read_frame(raw: Any) -> Frame:
    """One frame of a snapshot, whoever wrote it; NOISE where it says nothing."""
    if not isinstance(raw, dict):
        return Frame(Layer.NOISE, "", 0, "", 0, "")
    file, name, line = str(raw.get("filename", "")), str(raw.get("name", "")), raw.get("line")
    number = line if type(line) is int and 0 <= line < 10**7 else 0
    if profiled := _PROFILED.fullmatch(name) if file == "none" else None:
        file, number, name = profiled[1], int(profiled[2][:7]), profiled[3]
    layer = _layer(file)
    op = ""
    if layer is Layer.NOISE and (found := _OPERATOR.search(name) or _KERNEL.search(name)):
        op = found[1]
    return Frame(layer, file, number, name, _hints(layer, file, name), op)


def _layer(file: str) -> Layer:
    if not file.endswith((".py", ".ipynb")) or _PYTHON.search(file):
        return Layer.NOISE if not file.endswith(".py") else Layer.TORCH
    inside = next((file.split(part, 1)[1] for part in _LIBRARIES if part in file), None)
    inside = file if inside is None and file.startswith(("torch/", "functorch/")) else inside
    if inside is None:
        return Layer.USER
    return Layer.TORCH if inside.startswith(_OF_TORCH) else Layer.LIBRARY


def _hints(layer: Layer, file: str, name: str) -> int:
    text = f"{file}:{name}"
    hints = 0
    for hint, words in _WORDS:
        if hint & _OF_THE_USER:
            text_of = f"{short(file, 1)}:{name}" if layer is Layer.USER else ""
        else:
            text_of = text
        if text_of and words.search(text_of):
            hints |= hint
    return hints


@lru_cache(maxsize=16_384)
def short(file: str, parts: int = 2) -> str:
    """The last parts of a path; for a library, from its package on."""
    for marker in _LIBRARIES:
        if marker in file:
            return file.split(marker, 1)[1]
    return "/".join(file.replace("\\", "/").split("/")[-parts:])


def _stable(text: str) -> str:
    """Twelve hex digits that are the same on every machine and in every run."""
    data = text.encode("utf-8", "replace")
    return f"{zlib.crc32(data):08x}{zlib.adler32(data) & 0xFFFF:04x}"


def _site(seen: list[Frame]) -> Site:
    hints = 0
    for frame in seen:
        hints |= frame.hints
    chain = [f for f in seen if f.layer >= Layer.LIBRARY] or [f for f in seen if f.layer]
    first = next((f for f in chain if f.layer is Layer.USER), chain[0] if chain else seen[0])
    inner = chain[0] if chain else first
    op = next((f.op for f in seen if f.op), "")
    if first.layer is Layer.NOISE:
        # Autograd's own threads run no Python: the operator is all there is to name.
        where = "(backward)" if hints & Hint.BACKWARD else "(C++)"
        first = inner = Frame(Layer.NOISE, where, 0, op or first.name.split("(")[0][-60:], 0, "")
    via = (
        f"{short(inner.file)}:{inner.line} {inner.name}"
        if inner is not first
        else op * (op != first.name)
    )
    named = [f"{short(f.file)} {f.name}" for f in chain or [first]] + [op]
    return Site(
        id=_stable("\n".join(named)),
        file=first.file or first.name[:80],
        line=first.line,
        function=first.name,
        via=via,
        hints=hints,
        chain=tuple(f"{f.file}:{f.line} {f.name}" for f in chain[:KEPT]),
    )
