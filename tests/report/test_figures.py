import dataclasses
import io
import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

mpl = pytest.importorskip("matplotlib")

from matplotlib import colors, image  # noqa: E402

from unflip.bench.experiment import MethodEntry  # noqa: E402
from unflip.report.figures import LOOKS, draw_curves, picture  # noqa: E402
from unflip.report.results import gather  # noqa: E402

# What protan, deutan and tritan eyes see of linear RGB (Machado, Oliveira and Fernandes, 2009, severity 1).
EYES = (
    np.eye(3),
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
)


def oklab(linear):
    """Ottosson's OKLab, where distances are about those that one sees."""
    cones = np.array(
        [[0.41222147, 0.53633254, 0.05144599], [0.2119035, 0.68069955, 0.10739696], [0.08830246, 0.28171884, 0.6299787]]
    )
    axes = np.array(
        [
            [0.21045426, 0.79361779, -0.00407205],
            [1.9779985, -2.42859221, 0.45059371],
            [0.02590404, 0.78277177, -0.80867577],
        ]
    )
    return axes @ np.cbrt(cones @ np.clip(linear, 0, 1))


def linear_rgb(colour):
    rgb = np.array(colors.to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


@pytest.fixture
def records(make):
    rng = np.random.default_rng(0)
    made = [
        make("mnist", noise, method, np.linspace(0.5, 0.9, 12) + rng.normal(0, 0.01, 12), seed=seed)
        for noise in ("sym 20", "pair 40")
        for method in ("gce", "mcldce")
        for seed in range(3)
    ]
    made.append(make("mnist", "pair 40", "forward", np.linspace(0.4, 0.8, 12)))
    return [*made, make("mnist", "pair 40", "ridge", [0.7])]


@pytest.fixture
def results(experiment, records):
    return gather(experiment, records, "short")


@pytest.fixture
def drawing(experiment, results):
    return draw_curves(results, experiment.figures[0])


def test_a_panel_a_noise_and_a_curve_a_method(drawing):
    left, right = drawing.axes
    assert [ax.get_title(loc="left") for ax in drawing.axes] == ["Symmetric 20%", "Pairflip 40%"]
    assert [line.get_label() for line in left.lines] == ["GCE", "MC-LDCE"]
    assert [line.get_label() for line in right.lines] == ["GCE", "Forward", "MC-LDCE"]  # ridge has no epochs
    assert left.get_ylim() == right.get_ylim()
    (legend,) = drawing.legends
    assert [text.get_text() for text in legend.get_texts()] == ["GCE", "Forward", "MC-LDCE"]


def test_curves_are_means_and_shades_deviations_over_trials(drawing, results):
    left, right = drawing.axes
    curves = results.cells["mnist", "sym 20", "gce"].curves
    mean = [sum(column) / 3 for column in curves.T]
    deviation = [(sum((x - m) ** 2 for x in column) / 3) ** 0.5 for column, m in zip(curves.T, mean, strict=True)]
    np.testing.assert_array_equal(left.lines[0].get_xdata(), np.arange(1, 13))
    np.testing.assert_allclose(left.lines[0].get_ydata(), mean)
    corners = left.collections[0].get_paths()[0].vertices
    for epoch in (1, 7, 12):
        reached = corners[corners[:, 0] == epoch, 1]
        assert reached.max() == pytest.approx(mean[epoch - 1] + deviation[epoch - 1])
        assert reached.min() == pytest.approx(mean[epoch - 1] - deviation[epoch - 1])
    assert len(left.collections) == 2
    assert len(right.collections) == 2  # forward has one trial, so no shade


def test_a_method_looks_the_same_in_every_panel(drawing):
    left, right = drawing.axes
    looks = [{line.get_label(): (line.get_color(), line.get_linestyle()) for line in ax.lines} for ax in (left, right)]
    assert looks[0] == {name: looks[1][name] for name in looks[0]}
    assert len(set(looks[1].values())) == 3


def test_every_one_of_twenty_methods_looks_different(experiment, make):
    names = [f"method{i}" for i in range(20)]
    methods = {name: MethodEntry(name, {"kind": "gce"}) for name in names}
    many = dataclasses.replace(experiment, methods=methods)
    base = make("mnist", "sym 20", "gce", np.linspace(0.1, 0.9, 12))
    records = [base | {"cell": base["cell"] | {"method": name}} for name in names]
    (ax,) = draw_curves(gather(many, records, "short"), many.figures[0]).axes
    assert len({(line.get_color(), str(line._unscaled_dash_pattern)) for line in ax.lines}) == 20


def test_the_climb_of_the_first_epochs_does_not_set_the_scale(experiment, make):
    curve = [0.1, 0.1, *np.linspace(0.90, 0.96, 18)]
    (ax,) = draw_curves(
        gather(experiment, [make("mnist", "sym 20", "gce", curve)], "short"), experiment.figures[0]
    ).axes
    low, high = ax.get_ylim()
    assert 89 < low < 90 < 96 < high < 97


def test_a_collapse_does_not_set_the_scale_and_is_named(experiment, make):
    """One curve of thirty falls; the few points of it do not flatten the others."""
    names = [f"method{i}" for i in range(30)]
    many = dataclasses.replace(experiment, methods={name: MethodEntry(name, {"kind": "gce"}) for name in names})
    records = []
    for name in names:
        curve = np.full(20, 0.2) if name == "method7" else np.linspace(0.8, 0.9, 20)
        base = make("mnist", "sym 20", "gce", curve)
        records.append(base | {"cell": base["cell"] | {"method": name}})
    (ax,) = draw_curves(gather(many, records, "short"), many.figures[0]).axes
    assert 75 < ax.get_ylim()[0] < 82
    assert [text.get_text() for text in ax.texts] == ["method7: 20 ↓"]


def test_what_is_drawn_alike_differs_in_colour_for_all_eyes():
    for (first, dashes), (second, others) in itertools.combinations(LOOKS, 2):
        seen = [
            np.linalg.norm(oklab(np.array(eye) @ linear_rgb(first)) - oklab(np.array(eye) @ linear_rgb(second)))
            for eye in EYES
        ]
        assert seen[0] > 0.1, (first, second)
        if dashes == others:
            assert min(seen) > 0.09, (first, second)


def test_the_subtitle_tells_trials_protocol_and_commit(experiment, make):
    def subtitle(*records, protocol="short"):
        drawing = draw_curves(gather(experiment, records, protocol), experiment.figures[0])
        labels = [text.get_text() for text in drawing.legends[0].get_texts()]
        return drawing.texts[1].get_text(), labels

    curve = np.linspace(0.1, 0.9, 12)
    one = make("mnist", "sym 20", "gce", curve)
    two = make("mnist", "sym 20", "gce", curve, seed=1, commit="b" * 40)
    three = make("mnist", "sym 20", "mcldce", curve, seed=1, commit="b" * 40)
    assert subtitle(one) == ("one of 3 trials; protocol short, not the paper's", ["GCE"])
    assert subtitle(one, two, three) == (
        "mean of 1 to 2 of 3 trials, shade: deviation over trials; protocol short, not the paper's; "
        "‡ part of it or its T by another commit",
        ["GCE ‡", "MC-LDCE"],
    )
    paper = make("mnist", "sym 20", "gce", curve, protocol="paper")
    assert subtitle(paper, protocol="paper") == ("one of 3 trials; protocol paper", ["GCE"])
    whole = [make("mnist", "sym 20", "gce", curve, seed=seed, protocol="paper") for seed in range(3)]
    assert subtitle(*whole, protocol="paper")[0].startswith("mean of 3 trials, shade")
    plan = dataclasses.replace(experiment.protocols["paper"], seeds=(0,))
    alone = dataclasses.replace(experiment, protocols={"paper": plan})
    drawing = draw_curves(gather(alone, [paper], "paper"), experiment.figures[0])
    assert drawing.texts[1].get_text() == "one trial; protocol paper"


def test_the_longest_subtitle_fits(experiment, make):
    curve = np.linspace(0.1, 0.9, 12)
    records = [make("mnist", "sym 20", "gce", curve, seed=seed, commit=seed * "b" or None) for seed in range(2)]
    records.append(make("mnist", "sym 20", "mcldce", curve))
    drawing = draw_curves(gather(experiment, records, "short"), experiment.figures[0])
    subtitle = drawing.texts[1]
    subtitle.set_text(subtitle.get_text().replace("short", "a-long-name"))
    assert "‡" in subtitle.get_text()
    picture(drawing, "png")
    box = subtitle.get_window_extent()
    assert 0 < box.x0 < box.x1 < drawing.bbox.x1


def test_a_title_is_no_formula(experiment, make):
    methods = experiment.methods | {"gce": MethodEntry(r"a $\no{formula$", {"kind": "gce"})}
    odd = dataclasses.replace(experiment, methods=methods)
    record = make("mnist", "sym 20", "gce", np.linspace(0.1, 0.9, 12))
    assert picture(draw_curves(gather(odd, [record], "short"), odd.figures[0]), "png")


def test_pictures_are_whole(drawing):
    root = ElementTree.fromstring(picture(drawing, "svg"))
    found = [element.get("id") for element in root.iter() if str(element.get("id")).startswith("curve-")]
    assert sorted(found) == sorted(
        [f"curve-{noise}-{method}" for noise in ("sym-20", "pair-40") for method in ("gce", "mcldce")]
        + ["curve-pair-40-forward"]
    )
    pixels = image.imread(io.BytesIO(picture(drawing, "png")), format="png")
    assert pixels.shape[1] == 1800
    assert pixels[..., :3].std() > 0.01  # not an empty sheet


def test_settings_of_the_user_do_not_show_and_are_left_alone(experiment, results):
    def both():
        drawing = draw_curves(results, experiment.figures[0])
        return picture(drawing, "svg"), picture(drawing, "png")

    before = both()
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 20, "svg.hashsalt": "other", "savefig.dpi": 50}):
        assert both() == before
        assert mpl.rcParams["font.size"] == 20
    assert b"<dc:date>" not in before[0]
