"""The page of several annotators."""

import pytest

from tests.test_crowd import drawn
from unflip.crowd import AnnotatorModel

pytest.importorskip("jinja2")


def test_the_page_shows_the_annotators_and_escapes_names(tmp_path):
    from unflip.page import write_crowd_page

    Y, _, _ = drawn(n=60, m=4)
    Y[:, 1] = Y[:, 0]
    crowd = AnnotatorModel().fit(Y)
    names = [f"<script>{k}</script>" for k in range(60)]
    pairs = crowd.dependence()
    path = write_crowd_page(crowd, names, tmp_path / "page.html", title="<i>A</i>", dependent=pairs[:1], n_pairs=6)
    html = path.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "&lt;i&gt;A&lt;/i&gt;" in html
    assert html.count("<details>") == 4
    assert "1 of 6 pairs" in html
    assert f"{crowd.agreement_:.2f} (Krippendorff" in html
    assert (
        path.read_bytes()
        == write_crowd_page(
            crowd, names, tmp_path / "again.html", title="<i>A</i>", dependent=pairs[:1], n_pairs=6
        ).read_bytes()
    )
    alone = write_crowd_page(crowd, names, tmp_path / "alone.html", title="A").read_text(encoding="utf-8")
    assert "No two annotators share enough rows" in alone
