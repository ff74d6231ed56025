"""Batches: what is kept of the data, and what tells data apart."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tests.deep.recorder import method, small_data
from unflip.deep.batches import IterableBatches, MemoryBatches, is_batches, known_length, sample_batches
from unflip.deep.trainer import Trainer

CPU = torch.device("cpu")


def test_bytes_stay_bytes_and_are_not_copied_or_written():
    x, y = small_data()
    x.flags.writeable = False
    held = MemoryBatches(x, y, None, CPU).x
    assert held.dtype == torch.uint8
    assert held.data_ptr() == x.ctypes.data
    Trainer(method(), epochs=1).fit(x, y)


def test_the_mark_of_large_data_takes_few_rows():
    x = np.zeros((2500, 2))
    marks = [MemoryBatches(x, np.zeros(2500, int), None, CPU).mark()]
    for row in (1, 3):  # every third row counts
        x[row] = 1
        marks.append(MemoryBatches(x, np.zeros(2500, int), None, CPU).mark())
    assert marks[0] == marks[1] != marks[2]


def batches(n=1000, size=64):
    x = np.arange(3 * n).reshape(n, 3)
    return [(torch.tensor(x[k : k + size]), torch.tensor(x[k : k + size, 0] % 4)) for k in range(0, n, size)]


def test_a_sample_of_batches():
    x, places, y, weight = sample_batches(batches(), 5000)
    assert len(x) == len(y) == 1000  # all of them
    assert np.array_equal(x[:, 0], 3 * places)
    assert weight is None
    x, places, y, _ = sample_batches(batches(), 100)
    assert x.shape == (100, 3)
    assert len(y) == 1000
    assert np.array_equal(x[:, 0] % 4, y[places])
    assert len(set(places)) == 100
    assert 350 < places.mean() < 650  # of the whole, not of its beginning or end


def test_batches_that_are_refused():
    with pytest.raises(ValueError, match="yields no batches"):
        sample_batches([], 10)
    with pytest.raises(ValueError, match="batch 1 has 2 samples and 3 labels"):
        sample_batches([(np.zeros((2, 1)), [0, 1]), (np.zeros((2, 1)), [0, 1, 0])], 10)
    with pytest.raises(ValueError, match="some batches have weights"):
        sample_batches([(np.zeros((1, 1)), [0]), (np.zeros((1, 1)), [0], [1.0])], 10)
    with pytest.raises(TypeError, match="read only once"):
        sample_batches(iter(batches()), 10)


def test_what_are_batches():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(batches())

    stream = DataLoader(Stream(), batch_size=None)
    assert is_batches(stream)
    assert is_batches(iter(batches()))
    assert not any(map(is_batches, (np.zeros(3), torch.zeros(3), [[1.0]], 3)))
    assert known_length(stream) is None
    assert IterableBatches(stream, CPU).steps(64) is None
    assert known_length(DataLoader(TensorDataset(torch.zeros(10, 2)), batch_size=4)) == 3
