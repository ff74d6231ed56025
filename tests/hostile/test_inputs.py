"""Nothing hangs, fills the memory or is silently wrong: hostile and damaged files through every reader."""

import gzip
import json
import os
import shutil

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

import pandas as pd

from tests.hostile.conftest import invoke
from tests.test_input import posix, strange_files
from unflip import MCLDCEClassifier, load
from unflip._output import write_columns
from unflip.bench.spec import read_experiment
from unflip.commands import apply_corrections, read_probabilities, read_transition
from unflip.tables import read_table
from unflip.tables.read import open_file
from unflip.tables.sources import Reading, open_source

resource = pytest.importorskip("resource")

FRAME = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40) % 7, "label": list("xyyx") * 10})
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".jsonl", ".jsonl.gz", ".parquet", ".feather", ".arrow", ".npz", ".safetensors")


FUZZED = (".parquet", ".feather", ".npz", ".csv", ".csv.gz", ".jsonl", ".tsv", ".npy", ".safetensors")
FILE_CASES = (30, 1000)  # of each kind, in `make test` and in `make slow`


@pytest.fixture
def model(tmp_path):
    fitted = MCLDCEClassifier(np.eye(2)).fit(FRAME[["a", "b"]].to_numpy(), FRAME["label"])
    return fitted.save(tmp_path / "model")


@posix
@pytest.mark.timeout(60)
class TestStrangeFiles:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_as_a_table(self, tmp_path, suffix):
        for path, said in strange_files(tmp_path, f"x{suffix}"):
            if said != "a folder":
                with pytest.raises((ValueError, OSError), match=said):
                    read_table(path, "label")
        if suffix != ".npz" and suffix != ".safetensors":
            for path, said in strange_files(tmp_path, f"x{suffix}"):
                if said != "a folder":  # of a folder of tables
                    with pytest.raises((ValueError, OSError), match=said):
                        read_table(tmp_path, "label")
                    assert path.name in os.listdir(tmp_path)

    def test_as_an_array(self, tmp_path):
        for path, said in strange_files(tmp_path, "x.npy"):
            if said != "a folder":
                with pytest.raises((ValueError, OSError), match=said):
                    open_source(path)

    def test_in_a_folder_of_images(self, tmp_path):
        image = pytest.importorskip("PIL.Image")
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            image.new("L", (4, 4)).save(tmp_path / name / "1.png")
        for _, said in strange_files(tmp_path / "a", "2.png"):
            if said != "a folder":
                with pytest.raises((ValueError, OSError), match=said):
                    read_table(tmp_path)

    @pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
    def test_in_a_model(self, model, tmp_path, name):
        kept = tmp_path / "kept"
        shutil.move(model / name, kept)
        for _, said in strange_files(model, name):
            with pytest.raises((ValueError, OSError), match=said):
                load(model)
            with pytest.raises((FileExistsError, ValueError)):  # nor is it replaced
                MCLDCEClassifier(np.eye(2)).fit(np.eye(2), [0, 1]).save(model)
        (model / name).symlink_to(kept)
        with pytest.raises(ValueError, match="outside its folder"):
            load(model)

    def test_as_other_inputs(self, tmp_path):
        table = read_table(FRAME, "label")
        (tmp_path / "data.csv").write_text(FRAME.to_csv(index=False))
        readers = {
            "T.json": lambda path: read_transition(path, ["x", "y"]),
            "T.csv": lambda path: read_transition(path, ["x", "y"]),
            "T.npy": lambda path: read_transition(path, ["x", "y"]),
            "p.npy": lambda path: read_probabilities(path, table),
            "p.npz": lambda path: read_probabilities(path, table),
            "p.parquet": lambda path: read_probabilities(path, table),
            "suspects.csv": lambda path: apply_corrections(path, tmp_path / "data.csv", tmp_path / "new.csv"),
            "answers.json": lambda path: apply_corrections(path, tmp_path / "data.csv", tmp_path / "new.csv"),
            "e.toml": read_experiment,
        }
        for name, read in readers.items():
            for path, said in strange_files(tmp_path, name):
                if said != "a folder":
                    with pytest.raises((ValueError, OSError), match=said):
                        read(path)

    def test_on_the_command_line(self, model, tmp_path):
        os.mkfifo(tmp_path / "pipe.csv")
        done = invoke("predict", model, tmp_path / "pipe.csv", "--out", tmp_path / "out.csv")
        assert done.exit_code == 1
        assert done.stderr.count("\n") <= 2
        assert "is a named pipe, but a regular file is expected" in done.stderr


class TestBoundedMemory:
    @pytest.mark.parametrize("suffix", [".csv.gz", ".jsonl.gz"])
    def test_what_expands(self, tmp_path, monkeypatch, suffix):
        line = b"1,2,x\n" if suffix == ".csv.gz" else b'{"a": 1, "label": "x"}\n'
        with gzip.open(tmp_path / f"bomb{suffix}", "wb") as file:
            file.write((b"a,b,label\n" if suffix == ".csv.gz" else b"") + line * 300_000)
        monkeypatch.setenv("UNFLIP_MAX_EXPANDED", "1000000")
        with pytest.raises(ValueError, match="bomb.*expands to .*UNFLIP_MAX_EXPANDED"):
            read_table(tmp_path / f"bomb{suffix}", "label")

    def test_what_expands_in_an_npz(self, tmp_path, monkeypatch):
        np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((1000, 400)), y=np.arange(1000) % 2)
        monkeypatch.setenv("UNFLIP_MAX_EXPANDED", "1000000")
        with pytest.raises(ValueError, match="bomb.*expands to .*UNFLIP_MAX_EXPANDED"):
            read_table(tmp_path / "bomb.npz")

    def test_a_line_without_end(self, tmp_path, monkeypatch):
        monkeypatch.setenv("UNFLIP_MAX_LINE", "2000000")
        (tmp_path / "x.csv").write_text("a,label\n1," + "x" * 3_000_000)
        with pytest.raises(ValueError, match="x.csv.* it has a line of 2,.* bytes or more; .*UNFLIP_MAX_LINE"):
            read_table(tmp_path / "x.csv", "label")
        with pytest.raises(ValueError, match="UNFLIP_MAX_LINE"):
            read_table(tmp_path / "x.csv", "label", encoding="latin-1")

    @pytest.mark.parametrize("kind", ["csv", "parquet", "frame", "list"])
    def test_labels_of_a_million_characters(self, tmp_path, kind):
        frame = FRAME.assign(label=["x" * 1_000_000, *FRAME["label"][1:]])
        if kind == "list":
            with pytest.raises(ValueError, match="1,000,000 characters in row 0, too many for the name of a class"):
                open_source(FRAME[["a", "b"]].to_numpy(), frame["label"].tolist()).blocks().__next__()
            return
        if kind == "csv":
            frame.to_csv(tmp_path / "x.csv", index=False)
        elif kind == "parquet":
            frame.to_parquet(tmp_path / "x.parquet")
        with pytest.raises(ValueError, match="1,000,000 characters in row 0.*UNFLIP_MAX_LABEL"):
            read_table(frame if kind == "frame" else tmp_path / f"x.{kind}", "label")

    @pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
    def test_many_columns(self, tmp_path, monkeypatch, kind):
        monkeypatch.setenv("UNFLIP_MAX_COLUMNS", "50")
        frame = pd.DataFrame({f"c{k}": [1.0, 2.0] for k in range(60)})
        path = tmp_path / f"x.{kind}"
        if kind == "jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
        with pytest.raises(ValueError, match="columns.*the limit is 50.*UNFLIP_MAX_COLUMNS"):
            read_table(path)

    def test_a_network_as_large_as_announced(self, tmp_path):
        """The shape is refused before a network of this size is made: 10^6 features would take a gigabyte."""
        pytest.importorskip("torch")
        from unflip.deep import NoisyLabelClassifier
        from unflip.models.folder import checksum

        random = np.random.default_rng(0)
        X, y = random.normal(size=(40, 3)), np.arange(40) % 2
        NoisyLabelClassifier(method="ce", network="mlp", epochs=1, random_state=0, device="cpu").fit(X, y).save(
            tmp_path / "model"
        )
        document = json.loads((tmp_path / "model" / "model.json").read_text())
        for size in (10**6, 10**9):
            document["attributes"]["dict"]["input_shape_"] = {"list": [size]}
            document["checksum"] = checksum(document)
            (tmp_path / "model" / "model.json").write_text(json.dumps(document))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            with pytest.raises(ValueError, match="the network needs|UNFLIP_MAX_INPUT"):
                load(tmp_path / "model")
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def damaged(content, random):
    """Return a file's bytes, some of them changed, cut off or repeated."""
    content = bytearray(content)
    how = random.integers(4)
    at = int(random.integers(len(content)))
    if how == 0:
        content[at] ^= 1 << int(random.integers(8))
    elif how == 1:
        content = content[:at]
    elif how == 2:
        content[at : at + 8] = random.bytes(8)
    else:
        content[at:at] = content[at // 2 : at]
    return bytes(content)


class TestDamage:
    def test_records_nested_deeply(self, tmp_path):
        from unflip.bench.store import Store

        class Task:
            hash, tuning = "x", None

        store = Store(tmp_path)
        path = store.path(Task())
        path.parent.mkdir()
        path.write_text("[" * 100_000)
        assert store.get(Task()) is None
        assert store.damaged == [path]
        (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
        with pytest.raises(ValueError, match="deep.toml"):
            read_experiment(tmp_path / "deep.toml")
        (tmp_path / "deep.jsonl").write_text('{"a": ' + "[" * 100_000 + "\n")
        with pytest.raises(ValueError, match="deep.jsonl.*line 1 .*nested too deeply"):
            read_table(tmp_path / "deep.jsonl")

    @posix
    def test_names_that_are_not_text(self, tmp_path):
        image = pytest.importorskip("PIL.Image")
        for name in (b"a", b"b"):
            os.mkdir(os.path.join(os.fsencode(tmp_path), name))
            image.new("L", (4, 4)).save(tmp_path / os.fsdecode(name) / "1.png")
        try:
            os.rename(tmp_path / "a" / "1.png", os.path.join(os.fsencode(tmp_path), b"a", b"caf\xe9.png"))
        except OSError:
            pytest.skip("this file system only has names in UTF-8")
        with pytest.raises(ValueError, match=r"caf\\xe9.png' is not text in UTF-8; rename the file"):
            read_table(tmp_path)

    @pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
    def test_a_file_that_shrinks(self, tmp_path, suffix):
        frame, path = pd.concat([FRAME] * 100, ignore_index=True), tmp_path / f"x{suffix}"
        frame["a"] = np.random.default_rng(0).normal(size=len(frame))  # more than is read at once
        if suffix == ".parquet":
            pd.concat([frame] * 20).to_parquet(path, row_group_size=4000)
        elif suffix == ".csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_json(path, orient="records", lines=True)
        rows = open_file(str(path)).frames(Reading(100))
        next(rows)
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(ValueError, match=rf"x{suffix}.*(changed while it was read|cannot be read)"):
            list(rows)

    def test_a_file_that_shrinks_between_two_passes(self, tmp_path, model):
        path = tmp_path / "x.csv"
        FRAME.to_csv(path, index=False)
        file = open_file(str(path))
        FRAME[:20].to_csv(path, index=False)
        with pytest.raises(ValueError, match="changed while it was read"):
            list(file.frames(Reading(10)))

    def test_checksums_of_pages(self, tmp_path):
        """One bit of a number is changed: what the package wrote is not read as another number."""
        path = tmp_path / "p.parquet"
        values = np.random.default_rng(0).normal(size=1000)
        write_columns(path, {"a": values})
        content = bytearray(path.read_bytes())
        at = content.find(values[500:502].tobytes())
        at = at if at >= 0 else len(content) // 3
        content[at] ^= 1
        path.write_bytes(content)
        with pytest.raises(ValueError, match="p.parquet"):
            read_table(path)

    def test_offsets_that_lead_out_of_an_arrow_file(self, tmp_path):
        """pyarrow would read memory that is not the file's, which may end the interpreter."""
        from pyarrow import feather

        path = tmp_path / "x.arrow"
        feather.write_feather(pd.DataFrame({"a": [1.0, 2.0], "label": ["x", "y"]}), path, compression="uncompressed")
        content, lengths = path.read_bytes(), [np.array([0, 1, last], "<i4").tobytes() for last in (2, 10**9)]
        lengths = lengths if lengths[0] in content else [np.array([0, 1, last], "<i8").tobytes() for last in (2, 10**9)]
        assert lengths[0] in content
        path.write_bytes(content.replace(*lengths))
        with pytest.raises(ValueError, match="x.arrow"):
            read_table(tmp_path / "x.arrow", "label")

    def test_checksums_of_archives(self, tmp_path):
        path = tmp_path / "x.npz"
        np.savez(path, X=np.arange(400.0).reshape(100, 4), y=np.arange(100) % 2)
        content = bytearray(path.read_bytes())
        content[1000] ^= 1
        path.write_bytes(content)
        with pytest.raises(ValueError, match="x.npz.*CRC"):
            read_table(path)

    def fuzz(self, path, seed):
        """Damage a file: it is read, or refused in a sentence with its name."""
        target = path.with_name(f"fuzz{''.join(path.suffixes)}")
        target.write_bytes(damaged(path.read_bytes(), np.random.default_rng(seed)))
        try:
            if path.suffix == ".npy":
                next(iter(open_source(target).blocks()))
            else:
                read_table(target, "label")
        except (ValueError, OSError) as error:
            text = str(error)
            assert "fuzz" in text, text
            assert not text.startswith(("'", "[Errno")), text

    def written(self, folder, suffix):
        path = folder / f"x{suffix}"
        arrays = {"X": FRAME[["a", "b"]].to_numpy(), "label": (FRAME["label"] == "x").to_numpy()}
        if suffix == ".parquet":
            FRAME.to_parquet(path)
        elif suffix == ".feather":
            FRAME.to_feather(path)
        elif suffix == ".npz":
            np.savez_compressed(path, **arrays)
        elif suffix == ".npy":
            np.save(path, arrays["X"])
        elif suffix == ".safetensors":
            pytest.importorskip("safetensors.numpy").save_file(arrays, path)
        elif suffix == ".jsonl":
            FRAME.to_json(path, orient="records", lines=True)
        else:
            FRAME.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
        return path

    @pytest.mark.fuzz
    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("suffix", FUZZED)
    def test_fuzz(self, tmp_path, suffix):
        path = self.written(tmp_path, suffix)
        for seed in range(FILE_CASES[0]):
            self.fuzz(path, seed)

    @pytest.mark.slow
    @pytest.mark.fuzz
    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("suffix", FUZZED)
    def test_fuzz_more(self, tmp_path, suffix):
        path = self.written(tmp_path, suffix)
        for seed in range(1000, 1000 + FILE_CASES[1]):
            self.fuzz(path, seed)

    def fuzz_model(self, model, seeds):
        """No damage to a model is accepted, unless it says the same: spaces, or a key that is repeated as it was."""
        for seed in seeds:
            path = model / ("model.json" if seed % 2 else "weights.safetensors")
            whole = path.read_bytes()
            path.write_bytes(damaged(whole, np.random.default_rng(seed)))
            try:
                load(model)
                assert path.read_bytes() == whole or json.loads(path.read_bytes()) == json.loads(whole)
            except (ValueError, OSError) as error:
                text = str(error)
                assert "model" in text, text
            path.write_bytes(whole)
        load(model)

    @pytest.mark.fuzz
    def test_fuzz_a_model(self, model):
        self.fuzz_model(model, range(FILE_CASES[0]))

    @pytest.mark.slow
    @pytest.mark.fuzz
    def test_fuzz_a_model_more(self, model):
        self.fuzz_model(model, range(1000, 1000 + FILE_CASES[1]))
