"""Batches: what is kept of the data, and what tells data apart."""

import numpy as np
import torch

from tests.deep.recorder import method, small_data
from unflip.deep.batches import MemoryBatches
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
