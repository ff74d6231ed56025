from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy import sparse

from unflip.tables import Block, BlockError
from unflip.transition import VolMin, sample_rows
from unflip.transition.sample import Draw, Piece, Smallest

N = 1000
X = np.column_stack([np.arange(N), np.arange(N) ** 2]).astype(float)
Y = np.array(list("abcd"))[np.arange(N) % 4]
W = np.arange(N) / N
WORD = int.from_bytes(b"unflip")  # sets the stream of keys apart from those of data


def in_blocks(rows):
    return [(X[i : i + rows], Y[i : i + rows], W[i : i + rows]) for i in range(0, N, rows)]


def naive(size, seed, rows):
    """All keys, sorted; a part of an array is one block, so its index is (number, 0)."""
    keys = np.concatenate(
        [np.random.default_rng([WORD, seed, b, 0]).random(min(rows, N - i)) for b, i in enumerate(range(0, N, rows))]
    )
    return np.argsort(keys)[:size]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("size", [1, 10, 99, 500])
def test_the_rows_with_the_smallest_keys(size, threads):
    sample = sample_rows((X, Y, W), size, random_state=3, rows=90, threads=threads)
    drawn = naive(size, 3, 90)
    np.testing.assert_array_equal(sample.X, X[drawn])
    np.testing.assert_array_equal(sample.y, Y[drawn])
    np.testing.assert_array_equal(sample.weights, W[drawn])
    assert sample.n_rows == N


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", [7, 60, 400])
def test_a_generator_whose_length_nobody_knows(size, threads):
    """The same keys whether the number of rows is known before or not; here all blocks are of one part."""
    keys = np.concatenate([np.random.default_rng([WORD, 0, 0, b]).random(min(50, N)) for b in range(N // 50)])
    sample = sample_rows(iter(in_blocks(50)), size, threads=threads)
    np.testing.assert_array_equal(sample.X, X[np.argsort(keys)[:size]])
    assert sample.n_rows == N


def test_all_rows_if_there_are_fewer():
    sample = sample_rows((X, Y), 5000, rows=128)
    assert sorted(sample.X[:, 0]) == list(range(N))
    assert sample.X[:, 0].tolist() != list(range(N))  # in random order
    assert sample.weights is None


def test_sparse_and_unlabelled_rows():
    dense = sample_rows(X, 30, rows=100)
    thin = sample_rows(sparse.csr_array(X), 30, rows=100)
    assert dense.y is None
    np.testing.assert_array_equal(thin.X.toarray(), dense.X)


def test_every_row_is_drawn_equally_often():
    """Over 2,000 seeds each of 30 rows is drawn 2,000 / 3 times up to five standard deviations, in unequal blocks."""
    rows = np.arange(30.0)[:, np.newaxis]
    cuts = [(0, 3), (3, 4), (4, 25), (25, 30)]
    blocks = [Block(rows[a:b], None, index=(0, number)) for number, (a, b) in enumerate(cuts)]
    seen = np.zeros(30)
    for seed in range(2000):
        drawn = reduce(add, map(Draw(10, seed, 1.0), blocks)).in_order().X
        seen[drawn[:, 0].astype(int)] += 1
    assert seen.sum() == 2000 * 10
    assert np.abs(seen - 2000 / 3).max() < 5 * np.sqrt(2000 * (1 / 3) * (2 / 3))


def test_a_limit_that_was_too_low_is_mended(monkeypatch):
    expected = sample_rows((X, Y), 100, rows=90)
    monkeypatch.setattr("unflip.transition.sample.key_limit", lambda size, n_rows: 0.01)
    again = sample_rows((X, Y), 100, rows=90)
    np.testing.assert_array_equal(again.X, expected.X)


def test_one_pass():
    reads = []

    def blocks():
        reads.append(1)
        yield from in_blocks(100)

    sample_rows(blocks, 10)
    assert len(reads) == 1


def test_never_more_than_some_times_the_sample_is_kept():
    rng = np.random.default_rng(0)
    kept = None
    for number in range(300):
        keys = rng.random(20)
        value = Smallest((Piece(keys, keys[:, np.newaxis], None, None),), 50, 20, 1.0)
        kept = value if kept is None else kept + value
        assert kept.n_kept <= 100, number
    assert kept.n_rows == 6000


def test_a_long_block_gives_only_what_can_be_drawn():
    value = Draw(10, 0, 1.0)(Block(X, Y, None))
    assert value.n_kept == 10
    assert value.pieces[0].X.base is None  # a copy: the block can go


def test_names_come_along():
    pd = pytest.importorskip("pandas")
    assert sample_rows(pd.DataFrame({"p": W, "y": Y}), 5, label="y").feature_names == ("p",)


def test_volmin_takes_it():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=4000)
    centred = 4 * np.eye(3)[y] + rng.normal(size=(4000, 3))
    flipped = np.where(rng.random(4000) < 0.3, (y + 1) % 3, y)
    sample = sample_rows((centred, flipped), 2000, rows=300)
    T = VolMin().fit(sample.X, sample.y).transition_
    assert np.abs(T - (0.7 * np.eye(3) + 0.3 * np.roll(np.eye(3), 1, axis=1))).max() < 0.06


def test_nan_names_the_block():
    bad = X.copy()
    bad[333, 1] = np.nan
    with pytest.raises(BlockError, match="block 3, rows 300 to 399: row 333 has nan in column 1"):
        sample_rows((bad, Y), 10, rows=100)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size must be a whole number of rows"),
        ({"size": 1.5}, "size must be a whole number of rows"),
        ({"random_state": None}, "random_state must be a whole number"),
        ({"random_state": -1}, "random_state must be a whole number"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample_rows((X, Y), **arguments)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ((["a", "b"], [1, 2]), "strings, such as .*, in block 0, rows 0 to 1, but numbers, such as .*, in block 1"),
        (([True, False], [1, 2]), "booleans, such as .*, in block 0, rows 0 to 1, but numbers, such as .*, in block 1"),
    ],
)
def test_labels_of_two_kinds(labels, message):
    with pytest.raises(ValueError, match=f"the labels are {message}.*; use one kind"):
        sample_rows([(X[:2], y) for y in labels], 4)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ((X, None), "there are no labels, but there are labels in the first"),
        ((X, Y, W), "there are weights, but there are no weights in the first"),
        ((sparse.csr_array(X), Y), "X is sparse, but X is dense in the first block"),
    ],
)
def test_blocks_that_are_not_alike(second, message):
    with pytest.raises(BlockError, match=f"^block 1, rows 1000 to 1999: {message}"):
        sample_rows([(X, Y), second], 50)


def test_keys_are_not_the_numbers_that_the_data_were_made_of():
    """default_rng(0) and default_rng([0, 0, 0]) are one stream."""
    x = np.random.default_rng(0).random(5000)
    sample = sample_rows((x[:, np.newaxis], np.arange(5000) % 2), 1000)
    assert abs(sample.X.mean() - x.mean()) < 0.04  # four standard errors; the smallest of x would be at 0.1
