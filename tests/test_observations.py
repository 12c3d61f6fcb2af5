"""Observations as networks read them."""

import numpy as np
import pytest

from xlvin.errors import XLVINError
from xlvin.observations import DISCRETE, convert


def test_vectors_become_new_float32_arrays() -> None:
    given = np.array([1.0, 2.0], np.float32)
    read = convert(given, (2,), (2,), "float32")
    given[0] = 9.0
    assert read.dtype == np.float32
    assert read.tolist() == [1.0, 2.0]
    assert convert([[1, 2], [3, 4]], (2,), (2,), "float32").tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_channels_move_to_the_front() -> None:
    image = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    assert np.array_equal(convert(image, (2, 3, 4), (4, 2, 3), "uint8"), image.transpose(2, 0, 1))
    batch = convert(np.stack([image, image + 1]), (2, 3, 4), (4, 2, 3), "uint8")
    assert np.array_equal(batch[1], (image + 1).transpose(2, 0, 1))


def test_tables_are_flattened() -> None:
    table = np.arange(6).reshape(2, 3)
    assert convert(table, (2, 3), (6,), "float32").tolist() == [0, 1, 2, 3, 4, 5]
    assert convert(table[None], (2, 3), (6,), "float32").shape == (1, 6)


def test_states_become_one_hot() -> None:
    assert convert(2, DISCRETE, (4,), "float32").tolist() == [0, 0, 1, 0]
    assert convert(np.array([0, 3]), DISCRETE, (4,), "float32").tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize("state", [4, -1, 1.5, [0, 9]])
def test_states_that_do_not_exist_are_refused(state: object) -> None:
    with pytest.raises(XLVINError, match="from 0 to 3"):
        convert(state, DISCRETE, (4,), "float32")
