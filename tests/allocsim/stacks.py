"""Call stacks as a snapshot writes them: innermost frame first, frames shared."""

from __future__ import annotations

from functools import cache
from typing import Any

Frame = dict[str, Any]
Stack = tuple[Frame, ...]

SITE = "/opt/venv/lib/python3.11/site-packages"
PROJECT = "/workspace/llm"


@cache
def frame(filename: str, line: int, name: str) -> Frame:
    """One frame, the same object for the same place."""
    return {"name": name, "filename": filename, "line": line}


def user(file: str, line: int, name: str) -> Frame:
    return frame(f"{PROJECT}/{file}", line, name)


def torch(file: str, line: int, name: str) -> Frame:
    return frame(f"{SITE}/torch/{file}", line, name)


def native(name: str, filename: str = "??") -> Frame:
    return frame(filename, 0, name)


ALLOCATOR: Stack = (
    native("torch::unwind::unwind()"),
    native("torch::CapturedTraceback::gather(bool, bool, bool)"),
    native(
        "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc"
        "(signed char, unsigned long, CUstream_st*)",
        "CUDACachingAllocator.cpp",
    ),
    native("at::detail::empty_strided_cuda(c10::ArrayRef<long>, c10::ArrayRef<long>)"),
)
ENGINE: Stack = (
    native(
        "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"
    ),
    native(
        "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"
    ),
    native("execute_native_thread_routine", "thread48.o"),
)
CALLS: Stack = (
    torch("nn/modules/module.py", 1787, "_call_impl"),
    torch("nn/modules/module.py", 1776, "_wrapped_call_impl"),
)
MAIN: Stack = (user("train.py", 131, "main"), user("train.py", 140, "<module>"))
STEP: Stack = (user("train.py", 88, "train_step"), *MAIN)


def backward_of(node: str, *, native_too: bool) -> Stack:
    """A stack of autograd's own thread: no Python in it, so nothing without native frames."""
    if not native_too:
        return ()
    here = native(f"torch::autograd::generated::{node}::apply(std::vector<at::Tensor>&&)")
    return (*ALLOCATOR, here, *ENGINE)


def called(*frames: Frame, native_too: bool = False) -> Stack:
    """A stack of Python frames under the allocator's own."""
    return (*ALLOCATOR, *frames) if native_too else frames
