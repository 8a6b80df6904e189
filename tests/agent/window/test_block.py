import numpy as np
import pytest

from gpudiag.agent.window.block import Block, join, pack, unpack
from gpudiag.probes import labels

A, B = labels(gpu="0"), labels(gpu="1")


def test_a_packed_block_comes_back_exactly() -> None:
    values = np.array([[1.0, np.nan], [0.1, -np.inf], [1e300, 3.0]])
    block = unpack(pack(Block([A, B], np.array([1.5, 2.5, 3.5]), values)))
    assert block.keys == [A, B]
    assert block.times.tolist() == [1.5, 2.5, 3.5]
    np.testing.assert_array_equal(block.values, values)


@pytest.mark.parametrize(
    "data", [b"", b"not zlib", pack(Block([A], np.ones(1), np.ones((1, 1))))[:-4]]
)
def test_a_damaged_block_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpack(data)


def test_blocks_with_other_series_join_into_one() -> None:
    first = Block([A], np.array([1.0]), np.array([[10.0]]))
    second = Block([B, A], np.array([2.0]), np.array([[20.0, 11.0]]))
    joined = join([first, second])
    np.testing.assert_array_equal(joined.values, [[10.0, np.nan], [11.0, 20.0]])


def test_a_pick_has_the_columns_asked_for_in_their_order() -> None:
    block = Block([A, B], np.array([1.0, 2.0, 3.0]), np.array([[1.0, 10], [2, 20], [3, 30]]))
    times, values = block.pick([B, labels(gpu="9"), A], 2.0, 3.0)
    assert times.tolist() == [2.0]
    np.testing.assert_array_equal(values, [[20.0, np.nan, 2.0]])


def test_no_blocks_join_into_an_empty_one() -> None:
    times, values = join([]).pick([A], 0.0, 9.0)
    assert times.shape == (0,)
    assert values.shape == (0, 1)
