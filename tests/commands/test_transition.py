"""The noise of a table, written to files and read back."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")

import pandas as pd

from tests.commands.conftest import NAMES, T
from tests.tables.test_text import real_file
from unflip.commands import Noise, find_noise, read_transition, write_transition
from unflip.commands.transition import QUICK
from unflip.core import clean_prior
from unflip.metrics import transition_error
from unflip.noise import pairflip
from unflip.tables import read_table


class TestNoise:
    def test_rates_and_shares_follow_from_t(self):
        noise = Noise.of(np.array(["a", "a", "a", "b"]), np.array([[0.9, 0.1], [0.4, 0.6]]))
        prior = clean_prior([0.75, 0.25], [[0.9, 0.1], [0.4, 0.6]])
        assert np.allclose(noise.noise_rates, [0.1, 0.4])
        assert np.isclose(noise.noise_rate, prior[0] * 0.1 + prior[1] * 0.4)
        assert noise.names == ["a", "b"]

    def test_a_known_t_is_not_checked_again(self, monkeypatch):
        monkeypatch.delattr(np.linalg, "cond")
        Noise.of(NAMES[[0, 1, 2]], T)

    def test_found_in_a_table(self, table, quick):
        assert transition_error(find_noise(table, random_state=0).transition, T) < 0.3

    def test_texts_take_the_fast_way_and_say_so(self):
        frame = pd.read_csv(real_file("sst2"), nrows=800)
        noise = find_noise(read_table(frame[["text", "label"]], "label"))
        assert noise.notes == [QUICK]
        assert noise.transition.shape == (2, 2)

    def test_weights_count(self, table, quick):
        weights = np.arange(300) % 2 + 0.0
        other = np.where(weights == 0, "dog", table.y)
        one, two = (find_noise(replace(table, y=y, sample_weight=weights)) for y in (table.y, other))
        np.testing.assert_allclose(one.transition, two.transition)
        np.testing.assert_allclose(one.class_prior, two.class_prior)

    def test_written_and_read_back(self, tmp_path):
        pytest.importorskip("matplotlib")
        noise = Noise.of(NAMES[[0, 1, 2]], T)
        folder = write_transition(noise, tmp_path / "noise")
        for name in ("transition.json", "transition.csv"):
            assert np.array_equal(read_transition(folder / name, NAMES), T)
        assert (folder / "transition.svg").read_bytes().startswith(b"<?xml")
        assert (folder / "transition.png").read_bytes().startswith(b"\x89PNG")
        before = (folder / "transition.svg").read_bytes()
        write_transition(noise, folder)  # takes the place of the earlier one
        assert (folder / "transition.svg").read_bytes() == before

    @pytest.mark.parametrize("n", [30, 70])
    def test_a_picture_of_many_classes(self, n):
        pytest.importorskip("matplotlib")
        from unflip.report.figures import draw_transition, picture

        names = [f"class number {i} $x\n" * 2 for i in range(n)]
        assert picture(draw_transition(pairflip(n, 0.2), names), "png").startswith(b"\x89PNG")


class TestTransitionFile:
    def write(self, path, content):
        if path.suffix == ".npy":
            np.save(path, content)
        else:
            path.write_text(content)
        return path

    def test_names_in_any_order(self, tmp_path):
        shuffled = [2, 0, 1]
        content = {"classes": NAMES[shuffled].tolist(), "transition": T[np.ix_(shuffled, shuffled)].tolist()}
        assert np.array_equal(read_transition(self.write(tmp_path / "t.json", json.dumps(content)), NAMES), T)
        rows, columns = [1, 2, 0], [2, 1, 0]
        lines = [["", *NAMES[columns]], *([NAMES[i], *T[i, columns]] for i in rows)]
        with (tmp_path / "t.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
        assert np.array_equal(read_transition(tmp_path / "t.csv", NAMES), T)

    def test_without_names(self, tmp_path):
        text = "\n".join(",".join(map(repr, row)) for row in T.tolist())
        assert np.array_equal(read_transition(self.write(tmp_path / "t.csv", text), NAMES), T)
        assert np.array_equal(read_transition(self.write(tmp_path / "t.json", json.dumps(T.tolist())), NAMES), T)
        assert np.array_equal(read_transition(self.write(tmp_path / "t.npy", T), NAMES), T)

    def test_whole_numbers_as_class_names(self, tmp_path):
        with (tmp_path / "t.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["", 1, 2], [1, 0.9, 0.1], [2, 0.2, 0.8]])
        assert read_transition(tmp_path / "t.csv", np.array([1, 2])).tolist() == [[0.9, 0.1], [0.2, 0.8]]

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("t.npy", np.eye(4), "4 x 4 but there are 3 classes"),
            ("t.npy", np.array([None, {}], dtype=object), "cannot be read as a transition matrix"),
            ("t.npy", pairflip(3, 0.3).T @ np.diag([0.5, 1, 1]), "sums to"),
            ("t.txt", "", "should end in .json, .csv or .npy"),
            ("t.json", "{", "cannot be read"),
            ("t.json", '{"classes": ["a"]}', "no entry 'transition'"),
            ("t.json", '{"classes": ["a", "a"], "transition": []}', "not a list of different names"),
            ("t.json", '{"classes": ["a", "b"], "transition": [[1, 0], [0, 1]]}', "its classes are 'a', 'b', but"),
            ("t.json", '{"transition": [[1, 0], [0, 1]]}', "2 x 2 but there are 3 classes"),
            ("t.csv", "", "it has 0 lines"),
            ("t.csv", "1,0\n0,1,0\n", "square matrix"),
            ("t.csv", ",a,b\na,1,0\nb,0,x\n", "could not convert string to float: 'x'"),
            ("t.csv", ",a,b\na,1,0\nb,0,1\n", "those of the labels are '<script>', 'cat', 'dog'"),
        ],
    )
    def test_mistakes(self, tmp_path, name, content, words):
        with pytest.raises(ValueError, match=words) as caught:
            read_transition(self.write(tmp_path / name, content), NAMES)
        assert name in str(caught.value)

    def test_damaged_and_missing_files(self, tmp_path):
        whole = self.write(tmp_path / "whole.npy", T).read_bytes()
        objects = self.write(tmp_path / "objects.npy", np.array([None, {}], dtype=object)).read_bytes()
        for content in (b"", b"\n", b"no array", whole[:-8], whole[:20], objects):
            (tmp_path / "t.npy").write_bytes(content)
            with pytest.raises(
                ValueError, match=r"t.npy cannot be read .*: it does not hold a complete array of numbers, such as"
            ):
                read_transition(tmp_path / "t.npy", NAMES)
        (tmp_path / "t.csv").write_bytes("ä".encode("latin-1"))
        with pytest.raises(ValueError, match=r"t.csv cannot be read as a transition matrix: it is not text in UTF-8$"):
            read_transition(tmp_path / "t.csv", NAMES)
        (tmp_path / "folder.json").mkdir()
        with pytest.raises(IsADirectoryError, match=r"folder.json is a folder, but a regular file is expected$"):
            read_transition(tmp_path / "folder.json", NAMES)
        with pytest.raises(FileNotFoundError, match=r"^[^\[]*nowhere.npy does not exist$"):
            read_transition(tmp_path / "nowhere.npy", NAMES)
