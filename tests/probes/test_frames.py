from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpudiag.probes.frames import Frame, pack, split

FRAMES = st.lists(st.builds(Frame, st.integers(0, 255), st.binary(max_size=300)))


@given(FRAMES, st.integers(1, 97))
def test_any_cut_of_the_stream_gives_the_same_frames(frames: list[Frame], step: int) -> None:
    stream = b"".join(pack(*frame) for frame in frames)
    buffer, got = bytearray(), []
    for at in range(0, len(stream), step):
        buffer += stream[at : at + step]
        got += split(buffer)
    assert got == frames
    assert not buffer


def test_unfinished_frame_stays() -> None:
    buffer = bytearray(pack(3, b"abc")[:-1])
    assert split(buffer) == []
    assert split(buffer + b"c") == [Frame(3, b"abc")]
