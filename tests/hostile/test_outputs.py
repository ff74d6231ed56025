"""Nothing is lost: outputs that are written twice at once, on a full disk, over an input, or into a model."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.hostile.conftest import full_disk, invoke, start
from unflip import MCLDCEClassifier, load
from unflip._output import guarded, replaced_folder, together, unguarded, write_columns, write_whole
from unflip.commands import (
    named_by,
    predict_table,
    read_probabilities,
    read_transition,
    write_predictions,
    write_transition,
)
from unflip.commands.fit import Noise
from unflip.tables import read_table

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits and modes of POSIX")
FORMULAS = ("=1+1", "+x", "-cmd|' /C calc'!A0", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1+1", "'=x", "''@", "'-5")
PLAIN = ("-5", "+1.5e3", "a=1", "'quoted'", "", "'", "-.5")


def everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class TestTogether:
    def test_all_or_none(self, tmp_path):
        (tmp_path / "old").write_text("old")
        before = everything(tmp_path)

        def write(rows):
            with together():
                write_whole(tmp_path / "old", "new")
                with replaced_folder(tmp_path / "folder") as partial:
                    write_columns(partial / "inside.csv", {"a": np.arange(3)})
                    assert (partial / "inside.csv").exists()  # what is inside is there at once
                write_columns(tmp_path / "last.csv", {"a": np.arange(3), "b": np.arange(rows)})
                assert (tmp_path / "old").read_text() == "old"

        with pytest.raises(ValueError, match="longer"):
            write(4)
        assert everything(tmp_path) == before
        write(3)
        assert sorted(map(str, everything(tmp_path))) == ["folder/inside.csv", "last.csv", "old"]

    def test_what_took_its_place_is_taken_back(self, tmp_path):
        """The last output cannot be moved to its place: the others are as they were."""
        for name in ("file", "folder/x", "last/keep"):
            write_whole(tmp_path / name, "old")
        before = everything(tmp_path)

        def write():
            with together():
                write_whole(tmp_path / "file", "new")
                write_whole(tmp_path / "new", "new")
                with replaced_folder(tmp_path / "folder") as partial:
                    (partial / "x").write_text("new")
                write_whole(tmp_path / "other" / "last", "new")
                (tmp_path / "other").rename(tmp_path / "gone")

        with pytest.raises(OSError, match="last"):
            write()
        shutil.rmtree(tmp_path / "gone")
        assert everything(tmp_path) == before


class TestFullDisk:
    def sentence(self, error, path):
        assert str(error.value).startswith(f"{path} cannot be written: the file would be larger than the system allows")

    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_of_columns(self, tmp_path, suffix):
        path = tmp_path / f"p{suffix}"
        random = np.random.default_rng(0)
        with full_disk(10_000), pytest.raises(OSError, match="larger than") as error:
            write_columns(path, {"a": random.normal(size=10_000)})
        self.sentence(error, path)
        assert not list(tmp_path.iterdir())

    def test_of_a_model(self, tmp_path):
        random = np.random.default_rng(0)
        X, y = random.normal(size=(40, 60)), np.arange(40) % 3
        model = MCLDCEClassifier(np.eye(3)).fit(X, y)
        model.save(tmp_path / "model")
        before = everything(tmp_path)
        with full_disk(5_000), pytest.raises(OSError, match="larger than") as error:
            model.set_params(alpha=2.0).fit(X, y).save(tmp_path / "model")
        self.sentence(error, tmp_path / "model")
        assert everything(tmp_path) == before

    def test_no_model_without_its_page(self, folder, tmp_path):
        options = ["--label", "kind", "--model", "mcldce", "--out", tmp_path / "model", "--page", tmp_path / "page"]
        with full_disk(30_000):
            done = invoke("fit", folder / "people.csv", *options, "--transition", folder / "T.npy")
        assert done.exit_code == 1
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith(f"unflip: {tmp_path / 'page'}")
        assert "larger than the system allows" in last
        assert not list(tmp_path.iterdir())

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
    def test_of_standard_output(self, folder):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "unflip.cli", "predict", folder / "model", folder / "people.csv"]
            done = subprocess.run(
                [*map(str, command), "--out", "-"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert done.returncode != 0
        assert "the disk is full" in done.stderr
        assert "Traceback" not in done.stderr


class TestPlaces:
    def test_no_output_inside_a_model(self, folder):
        before = everything(folder / "model")
        for out in ("model/model.json", "model/weights.safetensors", "model/card.md", "model/deep/er/card.md"):
            done = invoke("card", folder / "model", "--out", folder / out)
            assert done.exit_code == 1
            assert "is inside the saved model" in done.stderr
        assert everything(folder / "model") == before

    def test_no_output_over_an_input(self, folder, tmp_path):
        data = tmp_path / "people.csv"
        data.write_bytes((folder / "people.csv").read_bytes())
        T = tmp_path / "T.csv"
        T.write_text("".join(f"{','.join(map(str, row))}\n" for row in np.eye(3)))
        suspects = tmp_path / "suspects.csv"
        suspects.write_text("name,given,suggested\n0,cat,[red]dog\n")
        before = everything(tmp_path)
        fit = ("fit", data, "--label", "kind", "--out", tmp_path / "model")
        for command in (
            ("predict", folder / "model", data, "--out", data),
            (*fit, "--predict-missing", data),
            (*fit, "--transition", T, "--predict-missing", T),
            (*fit, "--test", T, "--predict-missing", tmp_path / "." / "T.csv"),
            ("apply", suspects, "--to", data, "--out", tmp_path / "new.csv", "--log", data),
            ("apply", suspects, "--to", data, "--out", suspects),
            ("apply", suspects, "--to", data, "--out", tmp_path / "new.csv", "--log", tmp_path / "new.csv"),
            ("card", folder / "model", "--out", folder / "model"),
        ):
            done = invoke(*command)
            assert done.exit_code == 1, command
            assert "of this command as well" in done.stderr, command
        assert everything(tmp_path) == before


class TestFormulas:
    def test_guarded_and_back(self):
        for cell in (*FORMULAS, *PLAIN):
            assert unguarded(guarded(cell)) == cell
        assert all(guarded(cell) == f"'{cell}" for cell in FORMULAS)
        assert all(guarded(cell) == cell for cell in (*PLAIN, -5, 1.5, None))

    def test_of_predictions(self, folder, tmp_path):
        pd = pytest.importorskip("pandas")
        frame = pd.read_csv(folder / "people.csv", nrows=3)
        frame.index = ["=1+1", "-2x", "plain"]
        frame.to_csv(tmp_path / "in.csv", index_label="")
        for options, expected in (((), ["'=1+1", "'-2x", "plain"]), (("--raw",), ["=1+1", "-2x", "plain"])):
            done = invoke("predict", folder / "model", tmp_path / "in.csv", "--out", tmp_path / "out.csv", *options)
            assert done.exit_code == 0, done.stderr
            assert pd.read_csv(tmp_path / "out.csv")["name"].tolist() == expected
        done = invoke("predict", folder / "model", tmp_path / "in.csv", "--out", tmp_path / "out.parquet")
        assert pd.read_parquet(tmp_path / "out.parquet")["name"].tolist() == ["=1+1", "-2x", "plain"]

    def test_predictions_as_probabilities(self, folder, tmp_path):
        """`audit --probabilities` finds the rows by the names that `predict` guarded."""
        pd = pytest.importorskip("pandas")
        table = named_by(read_table(folder / "people.csv", label="kind"), "id")
        table = replace(table, names=np.array([f"-{name}x" for name in table.names]))
        model = load(folder / "model")
        predicted, proba = predict_table(model, table)
        for raw in (False, True):
            path = write_predictions(tmp_path / "p.csv", table, predicted, proba, model.classes_, raw)
            assert pd.read_csv(path)["name"][0] == ("-0x" if raw else "'-0x")
            np.testing.assert_allclose(read_probabilities(path, table), proba, atol=1e-6)

    def test_of_a_transition_matrix_and_back(self, tmp_path):
        pytest.importorskip("matplotlib")
        names, T = np.array(["'=x", "-1", "=x"]), np.array([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [0, 0.4, 0.6]])
        path = write_transition(Noise.of(names, T), tmp_path / "noise") / "transition.csv"
        assert path.read_text().splitlines()[0] == "clean,''=x,-1,'=x"
        assert np.array_equal(read_transition(path, names), T)
        raw = tmp_path / "raw.csv"
        raw.write_text(path.read_text().replace("'=", "="))
        assert np.array_equal(read_transition(raw, names), T)

    @pytest.mark.parametrize(("options", "guard"), [((), "'"), (("--raw",), "")])
    def test_of_a_consensus(self, tmp_path, options, guard):
        pd = pytest.importorskip("pandas")
        pytest.importorskip("jinja2")
        rows = [(f"@{k}", f"-{who}", "=yes" if k % 2 else "+no") for k in range(6) for who in ("ann", "bob")]
        pd.DataFrame(rows, columns=["item", "who", "said"]).to_csv(tmp_path / "long.csv", index=False)
        columns = ("--item", "item", "--annotator", "who", "--label", "said")
        done = invoke("consensus", tmp_path / "long.csv", *columns, "--out", tmp_path / "out", *options)
        assert done.exit_code == 0, done.output
        found = pd.read_csv(tmp_path / "out" / "consensus.csv")
        assert found["name"].tolist() == [f"{guard}@{k}" for k in range(6)]
        assert set(found["label"]) == {f"{guard}=yes", f"{guard}+no"}
        assert set(pd.read_csv(tmp_path / "out" / "annotators.csv")["annotator"]) == {f"{guard}-ann", f"{guard}-bob"}

    @pytest.mark.parametrize("options", [(), ("--raw",)])
    def test_an_audit_and_back(self, folder, tmp_path, options):
        pd = pytest.importorskip("pandas")
        frame = pd.read_csv(folder / "people.csv")
        frame["kind"] = frame["kind"].map({"cat": "=cat", "<script>": "'=odd", "[red]dog": "-dog"})
        frame["id"] = [f"@{k}" for k in range(len(frame))]
        frame.to_csv(tmp_path / "in.csv", index=False)
        columns = ("--label", "kind", "--id", "id")
        done = invoke(
            "audit", tmp_path / "in.csv", *columns, "--model", "mcldce", "--out", tmp_path / "audit", *options
        )
        assert done.exit_code == 0, done.output
        given = pd.read_csv(tmp_path / "audit" / "suspects.csv")["given"]
        assert set(given) <= ({"'=cat", "''=odd", "'-dog"} if not options else {"=cat", "'=odd", "-dog"})
        done = invoke(
            "apply", tmp_path / "audit" / "suspects.csv", "--to", tmp_path / "in.csv", "--out", tmp_path / "new.csv"
        )
        assert done.exit_code == 0, done.output
        new = pd.read_csv(tmp_path / "new.csv")
        assert set(new["kind"]) == {"=cat", "'=odd", "-dog"}
        assert (new["kind"] != frame["kind"]).sum() == len(given)


@pytest.mark.slow
def test_two_predictions_to_one_file(folder, tmp_path):
    """The last one wins, whole: the file is one of the two, to the byte."""
    pd = pytest.importorskip("pandas")
    frame = pd.concat([pd.read_csv(folder / "people.csv")] * 30)
    whole = {}
    for name, rows in (("a", len(frame)), ("b", len(frame) // 3)):
        frame[:rows].to_csv(tmp_path / f"{name}.csv", index=False)
        assert invoke("predict", folder / "model", tmp_path / f"{name}.csv", "--out", tmp_path / "o.csv").exit_code == 0
        whole[name] = (tmp_path / "o.csv").read_bytes()
    for _ in range(6):
        running = [
            start("predict", folder / "model", tmp_path / f"{name}.csv", "--out", tmp_path / "both.csv")
            for name in "ab"
        ]
        for process in running:
            process.communicate()  # which also closes its pipes
        assert [process.returncode for process in running] == [0, 0]
        assert (tmp_path / "both.csv").read_bytes() in whole.values()
        assert json.loads((folder / "model" / "model.json").read_text())["format"] == 1
    assert load(folder / "model") is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv", "both.csv", "o.csv"]
