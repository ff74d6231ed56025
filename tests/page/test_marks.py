"""The marks of the page against the numbers that they show."""

import re

import numpy as np
import pytest

pytest.importorskip("jinja2")
from unflip.page import ComparedClassifier
from unflip.page.marks import axis, curve, heat


def cells(paths, c):
    """The opacity of every cell, read back from the paths."""
    drawn = np.zeros((c, c))
    for strength, path in paths:
        for j, i, width, back in re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path):
            assert width == back
            assert not drawn[int(i), int(j) : int(j) + int(width)].any()
            drawn[int(i), int(j) : int(j) + int(width)] = strength
    return drawn


def test_the_heat_map_shades_every_cell_by_its_value():
    T = np.random.default_rng(3).dirichlet(np.ones(7), 7)
    shaded = heat(T)
    flips = np.where(np.eye(7, dtype=bool), 0, T)
    np.testing.assert_allclose(cells(shaded["flipped"], 7), flips / flips.max(), atol=0.5 / 24 + 1e-12)
    np.testing.assert_array_equal(cells(shaded["kept"], 7), np.diag(np.diag(T)))
    assert shaded["largest"] == flips.max()
    assert heat(np.eye(4))["flipped"] == []
    faint = heat(np.array([[0.99, 0.01], [0, 1]]))
    assert (faint["largest"], cells(faint["flipped"], 2)[0, 1]) == (0.1, pytest.approx(0.1, abs=0.5 / 24))


@pytest.mark.parametrize("numbers", [(0.9, 0.88, 0.92), (0.5, 0.5, 0.5), (0.1, 0.0, 1.0), (1.0, 0.999, 1.0), (0, 0, 0)])
def test_the_axis_holds_every_classifier_with_few_round_ticks(numbers):
    ticks = axis([ComparedClassifier("a", *numbers)])
    assert 2 <= len(ticks) <= 7
    assert ticks[0] <= numbers[1] + 1e-12
    assert ticks[-1] >= numbers[2] - 1e-12
    np.testing.assert_allclose(np.multiply(ticks, 100), np.rint(np.multiply(ticks, 100)), atol=1e-9)


def test_curves_fill_their_box_and_break_at_gaps():
    drawn = curve("loss", [3, 1, np.nan, 2, np.inf, 1, 1])
    assert drawn["pieces"] == ["0.00,0.00 16.67,100.00", "50.00,50.00", "83.33,100.00 100.00,100.00"]
    assert (drawn["low"], drawn["high"], drawn["last"], drawn["epochs"]) == (1, 3, 1, 7)
    assert curve("flat", [2.0])["pieces"] == ["0.00,50.00"]
