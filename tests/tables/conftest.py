"""A table as text, and a folder of images."""

import pytest

CSV = "age,town,kind,w\n20,Ulm,cat,1\n,Bonn,dog,2\n40,,cat,0.5\n50,Rome,dog,1\n"


def written(tmp_path, text, name="t.csv"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


def image(tmp_path, name, size=(5, 4), mode="RGB", colour=None):
    Image = pytest.importorskip("PIL.Image", reason="unflip[data] is not installed")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = colour if colour is not None else ((200, 100, 50) if mode == "RGB" else 100)
    Image.new(mode, size, colour).save(path)
    return path


@pytest.fixture
def pets(tmp_path):
    for name in ("cat/1.png", "cat/2.JPG", "dog/1.png", "dog/2.jpeg"):
        image(tmp_path / "pets", name)
    (tmp_path / "pets" / ".DS_Store").write_text("x")
    (tmp_path / "pets" / "cat" / "Thumbs.db").write_text("x")
    return tmp_path / "pets"
