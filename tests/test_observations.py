"""Observations as networks read them."""

import numpy as np
import pytest

from xlvin.errors import XLVINError
from xlvin.observations import DISCRETE, converter


def test_vectors_become_new_float32_arrays() -> None:
    given = np.array([1.0, 2.0], np.float32)
    read = converter((2,), (2,), "float32")(given)
    given[0] = 9.0
    assert read.dtype == np.float32
    assert read.tolist() == [1.0, 2.0]
    assert converter((2,), (2,), "float32")([[1, 2], [3, 4]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_channels_move_to_the_front() -> None:
    image = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    assert np.array_equal(converter((2, 3, 4), (4, 2, 3), "uint8")(image), image.transpose(2, 0, 1))
    batch = converter((2, 3, 4), (4, 2, 3), "uint8")(np.stack([image, image + 1]))
    assert np.array_equal(batch[1], (image + 1).transpose(2, 0, 1))


def test_tables_are_flattened() -> None:
    table = np.arange(6).reshape(2, 3)
    assert converter((2, 3), (6,), "float32")(table).tolist() == [0, 1, 2, 3, 4, 5]
    assert converter((2, 3), (6,), "float32")(table[None]).shape == (1, 6)


def test_states_become_one_hot() -> None:
    assert converter(DISCRETE, (4,), "float32")(2).tolist() == [0, 0, 1, 0]
    assert converter(DISCRETE, (4,), "float32")(np.array([0, 3])).tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize("state", [4, -1, 1.5, [0, 9]])
def test_states_that_do_not_exist_are_refused(state: object) -> None:
    with pytest.raises(XLVINError, match="from 0 to 3"):
        converter(DISCRETE, (4,), "float32")(state)
