"""Folders of results: whole or not at all, and never in place of other files."""

import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
from unflip.commands.folders import check_folder, written_folder


class TestFolders:
    FILES = ("summary.json", "list.csv")

    def test_whole_or_not_at_all(self, tmp_path):
        def stopped():
            with written_folder(tmp_path / "out", self.FILES) as partial:
                (partial / "list.csv").write_text("half")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            stopped()
        assert not list(tmp_path.iterdir())

    def test_an_earlier_result_is_replaced_or_kept(self, tmp_path):
        for text in ("unflip 1", "unflip 2"):
            with written_folder(tmp_path / "out", self.FILES) as partial:
                (partial / "summary.json").write_text(text)
        with pytest.raises(ZeroDivisionError), written_folder(tmp_path / "out", self.FILES) as partial:
            raise ZeroDivisionError
        assert (tmp_path / "out" / "summary.json").read_text() == "unflip 2"
        assert [item.name for item in tmp_path.iterdir()] == ["out"]

    def test_an_empty_folder_is_free(self, tmp_path):
        assert check_folder(tmp_path, self.FILES) == tmp_path.resolve()

    @pytest.mark.parametrize(
        "files", [{"summary.json": "mine"}, {"list.csv": "unflip "}, {"summary.json": "unflip ", "thesis.tex": ""}]
    )
    def test_the_files_of_others_are_left_alone(self, tmp_path, files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        with pytest.raises(FileExistsError, match="choose another folder"):
            check_folder(tmp_path, self.FILES)
        (tmp_path / "file").write_text("")
        with pytest.raises(FileExistsError, match="choose another folder"):
            check_folder(tmp_path / "file", self.FILES)
