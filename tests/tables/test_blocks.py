import gc
import threading
import weakref

import numpy as np
import pytest

from unflip.tables import BlockError, find_classes, open_source, reduce_blocks
from unflip.tables.blocks import FAN_IN, TreeSum, add_values


class Word:
    """Its sum writes down the order of all additions."""

    def __init__(self, text):
        self.text = text

    def __add__(self, other):
        return Word(f"({self.text}+{other.text})")


def blocks(n=50, rows=20, features=3, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(rows, features)), rng.integers(3, size=rows)) for _ in range(n)]


def tree_by_levels(values):
    """The tree as Dask builds it, level by level."""
    while len(values) > 1:
        values = [add_values(values[i : i + FAN_IN]) for i in range(0, len(values), FAN_IN)]
    return values[0]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 63, 64, 65, 200, 513])
def test_the_tree_adds_in_the_order_of_the_levels(n):
    values = [Word(str(i)) for i in range(n)]
    tree = TreeSum()
    for value in values:
        tree.add(value)
    assert tree.total().text == tree_by_levels(values).text
    assert len(tree.levels) <= 2 + np.log(n) / np.log(FAN_IN)  # what it holds


def test_a_value_that_is_none_adds_nothing():
    tree = TreeSum()
    for value in (None, Word("a"), None, Word("b"), None):
        tree.add(value)
    assert tree.total().text == "(a+b)"
    assert TreeSum().total() is None


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kind", ["one part", "many parts"])
def test_every_number_of_threads_adds_in_the_same_order(threads, kind):
    data = blocks()
    if kind == "one part":
        source, expected = open_source(data), [Word(f"block {i}") for i in range(50)]
    else:
        X, y = (np.concatenate(arrays) for arrays in zip(*data, strict=True))
        source = open_source(X, y, rows=70)
        expected = [Word(f"block {i}") for i in range(15)]
    found = reduce_blocks(source, lambda block: Word(block.name), threads=threads)
    assert found.text == tree_by_levels(expected).text


def test_each_block_is_read_once_and_knows_its_number():
    seen = []

    def read():
        for number, block in enumerate(blocks(10)):
            seen.append(number)
            yield block

    found = reduce_blocks(open_source(read), lambda block: [block.index], threads=3)
    assert seen == list(range(10))
    assert found == [(0, number) for number in range(10)]


def test_only_few_blocks_are_in_memory():
    alive, peak, lock = 0, 0, threading.Lock()

    def gone():
        nonlocal alive
        with lock:
            alive -= 1

    def read():
        nonlocal alive, peak
        for number in range(60):
            X = np.full((100, 2), float(number))
            weakref.finalize(X, gone)
            with lock:
                alive += 1
                peak = max(peak, alive)
            yield X, np.zeros(100, dtype=int)
            del X

    gc.collect()
    assert reduce_blocks(open_source(read), lambda block: block.X.sum(), threads=2) == 100 * 2 * sum(range(60))
    assert peak <= 2 * 2 + 3


def test_blas_has_one_thread_meanwhile_and_its_own_afterwards():
    from threadpoolctl import threadpool_info

    def blas():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = blas()
    assert before
    within = reduce_blocks(open_source(*blocks(1)[0], rows=10), lambda block: blas(), threads=2)
    assert set(within) == {1}
    assert blas() == before


def test_an_error_of_the_function_names_the_block():
    def function(block):
        if block.start >= 40:
            raise ValueError("too late")
        return 1

    with pytest.raises(BlockError, match="^block 2, rows 40 to 59: too late$"):
        reduce_blocks(open_source(blocks()), function, threads=2)


def test_the_users_own_error_is_left_alone():
    def read():
        yield blocks(1)[0]
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        reduce_blocks(open_source(read), len, threads=2)


def test_a_source_without_rows():
    with pytest.raises(ValueError, match="the source has no rows"):
        reduce_blocks(open_source([]), len)
    assert reduce_blocks(open_source([(np.empty((0, 2)), np.empty(0, int)), *blocks(1, features=2)]), len) == 20


def test_an_iterator_that_was_used_up():
    iterator = iter(blocks(2))
    assert reduce_blocks(open_source(iterator), len) == 40
    with pytest.raises(ValueError, match="no rows; an iterator that was read before has none left: give a function"):
        reduce_blocks(open_source(iterator), len)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"threads": 0}, "threads must be at least 1"), ({"engine": "spark"}, "engine must be")],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        reduce_blocks(open_source(blocks(1)), len, **arguments)


def test_an_iterable_cannot_go_to_dask():
    with pytest.raises(ValueError, match="cannot be sent to Dask; give files"):
        reduce_blocks(open_source(blocks(1)), len, engine="dask")


class TestFindClasses:
    @pytest.mark.parametrize("threads", [1, 3])
    def test_union_of_all_blocks(self, threads):
        data = [(np.zeros((2, 1)), y) for y in (["b", "longer"], ["a", "b"], ["c", "c"])]
        assert find_classes(open_source(data), threads=threads).tolist() == ["a", "b", "c", "longer"]

    def test_an_iterator_is_not_used_up(self):
        with pytest.raises(ValueError, match="can be read only once: name all classes with classes="):
            find_classes(open_source(iter(blocks(1))))

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ((["a"], [1]), "strings, such as 'a', in block 0, rows 0 to 0, but numbers, such as 1, in block 1"),
            (([True], [2]), "booleans, such as True, in block 0, rows 0 to 0, but numbers, such as 2, in block 1"),
            (([0], [False]), "numbers, such as 0, in block 0, rows 0 to 0, but booleans, such as False, in block 1"),
        ],
    )
    def test_kinds_must_agree(self, labels, message):
        data = [(np.zeros((1, 1)), y) for y in labels]
        with pytest.raises(ValueError, match=f"the labels are {message}.*; use one kind"):
            find_classes(open_source(data))

    def test_a_column_of_names_is_no_label(self, monkeypatch):
        monkeypatch.setattr("unflip.tables.sources.MOST", 30)
        with pytest.raises(ValueError, match="there are more than 30 different labels"):
            find_classes(open_source(np.zeros((60, 1)), np.arange(60), rows=20))

    def test_no_labels(self):
        with pytest.raises(ValueError, match="there are no labels"):
            find_classes(open_source(np.zeros((3, 1))))
        with pytest.raises(BlockError, match="block 0, rows 0 to 2: there are no labels"):
            find_classes(open_source([np.zeros((3, 1))]))
