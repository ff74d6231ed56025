"""The page as a file: what it holds, and that names stay text."""

import dataclasses
import hashlib
import json
import re
from base64 import b64decode, b64encode
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest

pytest.importorskip("jinja2")
from tests.page.conftest import make
from unflip.page import ComparedClassifier, Example, Suspect, write_page
from unflip.page.data import PNG

HOSTILE = "<script>alert(1)</script>"
QUOTED = """a"b'c</script><!--&amp; .png"""
VOID = {"meta", "link", "input", "br", "img"}
SHAPES = {"circle", "path", "rect", "polyline"}


class Tree(HTMLParser):
    """Every element of a page with its attributes and own text; it fails on a tag that is not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.open, self.closed_alone = [], [], 0
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, **dict(attributes), "text": "", "inside": [e["tag"] for e in self.open]}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        assert tag in SHAPES
        self.elements.append({"tag": tag, **dict(attributes), "text": "", "inside": [e["tag"] for e in self.open]})

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def find(self, tag, **attributes):
        return [e for e in self.elements if e["tag"] == tag and all(e.get(k) == v for k, v in attributes.items())]

    def of_class(self, name):
        return [e for e in self.elements if name in (e.get("class") or "").split()]

    def data(self):
        return json.loads(self.find("script", id="data")[0]["text"])


@pytest.fixture
def written(tmp_path):
    def write(page):
        return Tree(write_page(page, tmp_path / "page.html").read_text(encoding="utf-8"))

    return write


def test_noise_rate_is_the_share_of_samples_that_change_class(written):
    page = make()
    expected = sum(page.clean_counts[i] * page.transition[i, j] for i in range(3) for j in range(3) if i != j) / sum(
        page.clean_counts
    )
    tree = written(page)
    assert tree.find("p", id="noise-rate")[0]["text"] == f"{expected:.1%}"
    assert len([e for e in tree.find("circle") if e.get("class") == "on"]) == round(100 * expected)


def test_noise_rate_may_be_known_better_than_from_T(written, tmp_path):
    assert written(make(noise_rate=0.123)).find("p", id="noise-rate")[0]["text"] == "12.3%"
    told = written(make(noise_rate=0.1, noise_limit=0.25)).find("p", id="noise-rate")[0]["text"]
    assert told == "≤ 25.0%"
    with pytest.raises(ValueError, match="noise_rate must be a fraction"):
        write_page(make(noise_rate=1.5), tmp_path / "page.html")


def test_everything_that_was_given_is_on_the_page(written):
    tree = written(make())
    text = tree.find("body")[0]["text"]
    for part in ("Animals", "animals.csv", "MC-LDCE", "T estimated", "90.0%", "88.0% – 92.0%", "60.0%", "91.0%",
                 "unflip 1.2.3", "epoch 3", "7 of 1,000", "2 of them are listed."):  # fmt: skip
        assert part in text
    assert tree.find("title")[0]["text"] == "Animals"
    data = tree.data()
    assert (data["name"], data["given"], data["suggested"]) == (["1.png", "2.png"], [0, 1], [1, 0])
    assert data["probability"] == [0.9, 0.8]
    np.testing.assert_allclose(data["transition"], make().transition)


def test_the_most_frequent_flips_are_sorted_by_the_samples_they_move(written):
    page = make(clean_counts=[1000.0, 10.0, 500.0])
    pairs = [" ".join(e["text"].split()) for e in written(page).of_class("pair")]
    assert pairs == ["cat → dog", "eel → cat", "eel → dog", "dog → cat", "dog → eel"]


def test_a_page_may_be_nearly_empty(written):
    tree = written(
        make(("a", "b"), transition=np.eye(2), noise_rates=[0, 0], curves={}, classifiers=[], suspects=[], summary=[])
    )
    assert tree.find("p", id="noise-rate")[0]["text"] == "0.0%"
    text = tree.find("body")[0]["text"]
    assert "No label looks wrong" in text
    assert "every class keeps its label" in text
    assert "Training" not in text
    assert "Compared classifiers" not in text


def test_a_page_where_nobody_looked_for_suspects_says_nothing_of_them(written):
    tree = written(make(suspects=None, n_suspects_total=0))
    assert "Training" in tree.find("body")[0]["text"]
    assert not tree.find("section", id="suspects")
    assert not tree.find("table", id="table")
    assert not any("uspect" in element["text"] for kind in ("p", "h2", "a") for element in tree.find(kind))


def test_names_stay_text_wherever_they_stand(written):
    classes = (HOSTILE, QUOTED)
    tree = written(
        make(
            classes,
            title=HOSTILE,
            summary=[(QUOTED, HOSTILE)],
            curves={HOSTILE: [1, 2], QUOTED: [2, 1]},
            classifiers=[ComparedClassifier(HOSTILE, 0.5, 0.4, 0.6, note=QUOTED)],
            suspects=[Suspect(QUOTED, *classes, 0.5), Suspect(HOSTILE, *classes[::-1], 0.5)],
            made_with=HOSTILE,
        )
    )
    script = (files("unflip.page") / "templates" / "page.js").read_text(encoding="utf-8")
    assert [e["text"] for e in tree.find("script") if "type" not in e] == [script]
    assert tree.data()["name"] == [QUOTED, HOSTILE]
    assert tree.data()["classes"] == list(classes)
    assert tree.find("title")[0]["text"] == HOSTILE
    assert {e["title"] for e in tree.of_class("name") if "title" in e} == set(classes)
    shown = [e["text"] for e in tree.of_class("name")]
    assert shown.count(HOSTILE) >= 5  # the matrix and the balance have a short form
    assert shown.count(QUOTED) >= 3


def test_the_data_block_holds_nothing_that_html_reads(tmp_path):
    separators = "\u2028\u2029]]>"
    page = make((HOSTILE, QUOTED, separators))
    html = write_page(page, tmp_path / "page.html").read_text(encoding="utf-8")
    block = html.split('id="data">')[1].split("</script>")[0]
    assert block.isascii()
    assert not set("<>&") & set(block)
    assert json.loads(block)["classes"] == list(page.classes)


def test_only_the_own_script_may_run_and_nothing_is_fetched(written):
    tree = written(make())
    own = next(e["text"] for e in tree.find("script") if "type" not in e)
    policy = next(e["content"] for e in tree.find("meta") if e.get("http-equiv") == "Content-Security-Policy")
    assert f"script-src 'sha256-{b64encode(hashlib.sha256(own.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    for element in tree.elements:
        assert not any(key.startswith("on") for key in element)
        for key in ("src", "href", "srcset", "action"):
            assert element.get(key, "#").startswith(("#", "data:"))
    assert not re.search(r"url\(|@import", tree.find("style")[0]["text"])


def test_same_data_same_bytes_and_nothing_else_is_left(tmp_path):
    first = write_page(make(), tmp_path / "new folder" / "a.html")
    second = write_page(make(), str(tmp_path / "new folder" / "b.html"))
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in first.parent.iterdir()) == ["a.html", "b.html"]


def test_a_page_that_is_refused_leaves_the_old_one(tmp_path):
    path = write_page(make(), tmp_path / "page.html")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="probability"):
        write_page(make(suspects=[Suspect("1", "cat", "dog", 1.5)]), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_ticks_are_kept_apart_by_what_the_page_holds(written):
    suspects = make().suspects
    pages = make(), make(title="Other"), make(suspects=suspects[:1]), make(suspects=suspects[::-1])
    keys = {written(page).data()["key"] for page in pages}
    assert len(keys) == 3  # the title changes nothing about the suspects


def test_thumbnails_are_inside_and_may_be_missing(written):
    picture = PNG + b"rest"
    data = written(make(suspects=[Suspect("1", "cat", "dog", 0.5, picture), Suspect("2", "dog", "cat", 0.5)])).data()
    assert [b64decode(text) for text in data["thumbnail"]] == [picture, b""]
    assert written(make()).data()["thumbnail"] == []


@pytest.mark.parametrize("n_classes", [2, 12, 13, 40, 100, 130])
def test_the_document_stays_small_for_many_classes(written, n_classes):
    rng = np.random.default_rng(0)
    T = rng.dirichlet(np.full(n_classes, 0.5), n_classes)
    classes = [f"class {k}" for k in range(n_classes)]
    tree = written(make(classes, transition=T, noise_rates=1 - np.diag(T)))
    assert len(tree.find("path", **{"class": "flipped"})) <= 24
    labels = [e for e in tree.of_class("name") if "columns" not in e["inside"] and e.get("title") == classes[-1]]
    assert len(labels) == (3 if n_classes <= 100 else 1)  # both axes and the balance
    assert len(tree.elements) < 500 + 20 * n_classes


def test_5000_suspects_cost_their_data_and_no_elements(tmp_path):
    few = make(n_samples=9000, n_suspects_total=5000)
    many = dataclasses.replace(few, suspects=[Suspect(f"{k:06d}.png", "cat", "dog", 0.5) for k in range(5000)])
    small, large = (write_page(page, tmp_path / f"{k}.html") for k, page in enumerate((few, many)))
    assert len(Tree(small.read_text()).elements) == len(Tree(large.read_text()).elements)
    assert large.stat().st_size - small.stat().st_size < 5000 * 40


def test_what_is_not_quite_all_or_none_is_not_rounded_to_it(written):
    T = np.array([[0.99999, 0.00001], [0.0, 1.0]])
    text = written(make(("a", "b"), transition=T, noise_rates=1 - np.diag(T))).find("table", **{"class": "balance"})
    assert "<0.1%" in text[0]["text"]
    assert "0.0%" in text[0]["text"]


def test_names_of_many_classes_are_told_apart(written):
    classes = [f"a long beginning that all of them have {k}" for k in range(100)]
    tree = written(make(classes))
    for place in ("rows", "columns"):
        (labels,) = (e for e in tree.of_class(place) if "labels" in e["class"])
        names = [line.strip() for line in re.split(r"(?<=\d)(?=a )", labels["text"].strip())]
        assert len(set(names)) == 100
    titles = [e["title"] for e in tree.find("th") if "title" in e]
    assert titles == classes


def test_contents_of_rows_are_in_the_data_and_cut(written):
    suspect = Suspect("1", "cat", "dog", 0.9, None, ["x" * 1000, HOSTILE], [1], [0])
    page = make(suspects=[suspect], columns=("a", QUOTED), examples=[Example("9", "dog", ["y", "z"])])
    data = written(page).data()
    assert data["columns"] == ["a", QUOTED]
    assert data["cells"][0][1] == HOSTILE
    assert len(data["cells"][0][0]) == 600
    assert (data["first"], data["alike"], data["examples"]) == ([[1]], [[0]], [["9", 1, ["y", "z"], ""]])
    assert "Row contains" in written(page).find("body")[0]["text"]


def test_the_explanation_is_on_the_page(written):
    assert "7 because of this." in written(make(explanation="7 because of this.")).find("body")[0]["text"]
