"""The page in a real Chromium: what a person does with it, and what the browser says about it."""

import csv
import io
import os
import shutil
import struct
import zlib

import numpy as np
import pytest

pytest.importorskip("jinja2")
pytest.importorskip("selenium", reason="no selenium: pip install unflip[dev]")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.hostile.test_outputs import FORMULAS, PLAIN
from unflip._output import guarded, write_columns
from unflip.page import ComparedClassifier, Example, Page, Suspect, write_page

HOSTILE = "<script>alert(1)</script>"
CLASSES = ("cat", "dog", HOSTILE, "=cow, or \"ox\"\nor '-1'", "-1")
NAMES = ('x"onerror=alert(1)>.png', "<img src=x onerror=alert(1)>.png", "10.png", "9.png", "=1+1.png", "naïve, 猫.png")


def png(level):
    """A grey picture of one pixel."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    parts = [(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes([0, level])))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in [*parts, (b"IEND", b"")])


def make(suspects, classes=CLASSES, **further):
    c = len(classes)
    T = np.full((c, c), 0.2 / (c - 1))
    np.fill_diagonal(T, 0.8)
    return Page(
        title=f"Animals {HOSTILE}",
        summary=[("data", "animals.csv"), ("file", "a/very/long/path/without/any/space/" * 4)],
        classes=classes,
        transition=T,
        noisy_counts=np.full(c, 1234.0),
        clean_counts=np.full(c, 1234.0),
        noise_rates=1 - np.diag(T),
        curves={"loss": [3.0, 2.0, 1.0]},
        classifiers=[ComparedClassifier("MC-LDCE", 0.9, 0.88, 0.92, 0.7, 0.91, "a note")],
        suspects=suspects,
        n_samples=9999,
        n_suspects_total=len(suspects),
        made_with="unflip",
        **further,
    )


def few():
    given, suggested = (0, 1, 2, 3, 0, 4), (1, 0, 0, 4, 2, 3)
    probability = (0.99999, 0.91, 0.8, 0.7, 0.6, 0.29)
    rows = zip(NAMES, given, suggested, probability, strict=True)
    return [Suspect(name, CLASSES[g], CLASSES[s], p, png(k)) for k, (name, g, s, p) in enumerate(rows)]


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def chromium(downloads):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if not (browser and driver):
        pytest.skip("no Chromium with its driver; on Debian: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--disable-dev-shm-usage", "--window-size=1280,900", "--lang=en"):
        options.add_argument(argument)
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container; Chromium refuses root otherwise
        options.add_argument("--no-sandbox")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chromium = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chromium
    chromium.quit()


class Screen:
    """A page in the browser and the few things that a test does with it."""

    def __init__(self, chromium, path):
        self.chromium = chromium
        chromium.get(path.as_uri())

    def __getitem__(self, identifier):
        return self.chromium.find_element(By.ID, identifier)

    def all(self, selector):
        return self.chromium.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        # One script, so that the page cannot redraw between finding an element and reading it.
        return self.script("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def script(self, code, *arguments):
        return self.chromium.execute_script(code, *arguments)

    def names(self):
        return self.texts("#table tbody .called .name")

    def ticks(self):
        return self.script("return [...document.querySelectorAll('#table tbody input')].map((box) => box.checked)")

    def sort(self, by):
        self.click(f"[data-sort={by}]")

    def click(self, selector):
        # Through the element, so that the bar that sticks to the window's foot never catches the click.
        self.script("arguments[0].click()", self.all(selector)[0])

    def pick(self, identifier, label):
        options = self.all(f"#{identifier} option")
        text = next(o.get_attribute("textContent") for o in options if o.get_attribute("textContent").startswith(label))
        Select(self[identifier]).select_by_index(self.texts(f"#{identifier} option").index(text))

    def wait(self, condition):
        return WebDriverWait(self.chromium, 20).until(lambda _: condition())

    def dark(self, on):
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self.chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def size(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def complaints(self):
        return [entry["message"] for entry in self.chromium.get_log("browser")]


@pytest.fixture
def show(chromium, tmp_path):
    screens = []

    def show(page):
        screens.append(Screen(chromium, write_page(page, tmp_path / f"page{len(screens)}.html")))
        return screens[-1]

    yield show
    for screen in screens[-1:]:
        screen.script("localStorage.clear()")
        screen.dark(False)
        screen.chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        assert screen.complaints() == []  # an exception, a refused script or a picture that is none


@pytest.fixture
def screen(show):
    return show(make(few()))


def exported(screen, downloads):
    """The bytes of the CSV that a click on the button downloads."""
    file = downloads / "corrected-labels.csv"
    file.unlink(missing_ok=True)
    screen.click("#download")
    screen.wait(file.exists)  # Chromium gives a file its name when it is whole
    return file.read_bytes()


def test_names_stay_text(screen):
    assert screen.names() == list(NAMES)
    assert HOSTILE in screen.texts("#table tbody .given .name")
    assert HOSTILE in screen.script("return [...document.querySelectorAll('.balance th')].map((e) => e.title)")
    assert screen.texts("h1") == [f"Animals {HOSTILE}"]
    assert len(screen.all("script")) == 2
    assert all(image.get_attribute("src").startswith("data:image/png") for image in screen.all("img"))


def test_pictures_are_shown(screen):
    screen.wait(lambda: screen.script("return [...document.images].every((i) => i.complete)"))
    assert screen.script("return [...document.images].map((i) => i.naturalWidth)") == [1] * len(NAMES)


def test_sorts_by_every_column_both_ways(screen):
    headers = {e.get_attribute("class"): e for e in screen.all("#table th[aria-sort]")}
    assert headers["probability"].get_attribute("aria-sort") == "descending"
    screen.sort("probability")
    assert screen.names() == list(NAMES[::-1])
    assert headers["probability"].get_attribute("aria-sort") == "ascending"
    screen.sort("name")
    names = screen.names()
    assert names.index("9.png") + 1 == names.index("10.png")  # as numbers
    assert headers["probability"].get_attribute("aria-sort") == "none"
    assert headers["called"].get_attribute("aria-sort") == "ascending"
    screen.sort("name")
    assert screen.names() == names[::-1]
    for by in ("given", "suggested"):
        screen.sort(by)
        labels = screen.texts(f"#table tbody .{by} .name")
        screen.sort(by)
        assert sorted(labels) == sorted(screen.texts(f"#table tbody .{by} .name"))
        assert labels[0] == screen.texts(f"#table tbody .{by} .name")[-1] != labels[-1]


def test_filters_together_and_one_by_one(screen):
    screen.pick("filter-given", "cat")
    assert screen.names() == [NAMES[0], NAMES[4]]
    screen.pick("filter-suggested", HOSTILE)
    assert screen.names() == [NAMES[4]]
    assert screen["count"].text == "1 of 6 shown"
    screen.click("#filters [type=reset]")
    screen.wait(lambda: len(screen.names()) == 6)
    screen["filter-name"].send_keys("ONERROR")
    assert screen.names() == [NAMES[0], NAMES[1]]
    screen["filter-name"].send_keys(" nothing")
    assert screen.names() == []
    assert screen["none"].is_displayed()
    assert not screen["table"].is_displayed()


@pytest.mark.parametrize(("least", "count"), [(29, 6), (30, 5), (70, 3), (91, 2), (99, 1), (100, 0)])
def test_filters_by_probability_with_its_bound(screen, least, count):
    screen.script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))",
        screen["filter-probability"],
        least,
    )
    expected = [suspect.name for suspect in few() if suspect.probability >= least / 100]
    assert screen.names() == expected
    assert screen["filter-probability-text"].text == f"{least}%"
    assert len(expected) == count + (least == 70)  # 0.7 is at its own bound


def test_a_probability_below_one_is_not_shown_as_one(screen):
    assert screen.texts("#table tbody .value")[:2] == [">99.9%", "91.0%"]


def test_ticks_and_the_export_of_them(screen, downloads):
    assert screen["download"].get_attribute("aria-disabled") == "true"
    screen.click("#table tbody tr:nth-child(6) input")
    screen.click("#table tbody tr:nth-child(1) input")
    screen.click("#table tbody tr:nth-child(2) input")
    screen.click("#table tbody tr:nth-child(2) input")
    assert screen["ticked"].text == "2 accepted"
    screen.sort("name")  # the ticks belong to the suspects, not to the rows
    ticked = [name for name, on in zip(screen.names(), screen.ticks(), strict=True) if on]
    assert sorted(ticked) == sorted([NAMES[0], NAMES[5]])
    content = exported(screen, downloads)
    assert content.decode() == (
        'name,given,corrected\r\n"x""onerror=alert(1)>.png",cat,dog\r\n'
        '"naïve, 猫.png",-1,"\'=cow, or ""ox""\nor \'-1\'"\r\n'
    )


def test_tick_all_shown_obeys_the_filter_and_exports_all(screen, downloads):
    screen.pick("filter-given", "cat")
    assert screen["tick-shown"].text == "Tick all 2 shown"
    screen.click("#tick-shown")
    screen.click("#filters [type=reset]")
    screen.wait(lambda: len(screen.names()) == 6)
    assert screen.ticks() == [True, False, False, False, True, False]
    screen.click("#tick-shown")
    assert screen.ticks() == [True] * 6
    rows = list(csv.reader(io.StringIO(exported(screen, downloads).decode(), newline="")))
    expected = [[guarded(value) for value in (s.name, s.given, s.suggested)] for s in few()]
    assert rows == [["name", "given", "corrected"], *expected]
    # "=1+1.png" and the class "=cow..." twice; -1 is a number and no formula
    assert screen["warning"].text.startswith("3 values begin like a formula and got an apostrophe")
    screen.pick("filter-given", "cat")
    screen.click("#untick-shown")
    screen.pick("filter-given", "all")
    assert screen.ticks() == [False, True, True, True, False, True]
    assert not screen["warning"].is_displayed()
    screen.click("#untick")
    assert screen["ticked"].text == "0 accepted"


def test_the_export_is_guarded_and_applied_as_it_came(show, downloads, tmp_path):
    """The script guards the same cells as Python does, and `apply` finds the rows and the labels without the guard."""
    pytest.importorskip("pandas")
    from unflip.commands import apply_corrections

    names = [*FORMULAS, *filter(None, PLAIN)]
    labels = ("=cat", "'-dog")
    page = make([Suspect(name, labels[k % 2], labels[1 - k % 2], 0.9) for k, name in enumerate(names)], labels)
    screen = show(page)
    screen.click("#tick-shown")
    rows = list(csv.reader(io.StringIO(exported(screen, downloads).decode(), newline="")))[1:]
    assert rows == [[guarded(value) for value in (s.name, s.given, s.suggested)] for s in page.suspects]
    assert [row[0] for row in rows] == [*(f"'{name}" for name in FORMULAS), *filter(None, PLAIN)]
    screen["filter-name"].send_keys("x")  # of these, only those that a table has: it is read without spaces
    screen.click("#untick-shown")
    exported(screen, downloads)
    kept = [s for s in page.suspects if "x" not in s.name]
    data = tmp_path / "data.csv"
    columns = {"id": np.array([s.name for s in kept]), "kind": np.array([s.given for s in kept])}
    write_columns(data, columns, raw=True)
    apply_corrections(downloads / "corrected-labels.csv", data, tmp_path / "new.csv", label="kind", id="id")
    with (tmp_path / "new.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[1:] == [[s.name, s.suggested] for s in kept]


def test_filters_by_what_is_ticked_without_moving_rows_under_the_pointer(screen):
    screen.click("#table tbody tr:nth-child(3) input")
    screen.pick("filter-ticked", "ticked")
    assert screen.names() == [NAMES[2]]
    screen.click("#table tbody input")
    assert screen.names() == [NAMES[2]]
    assert screen.ticks() == [False]
    screen.pick("filter-ticked", "not ticked")
    assert len(screen.names()) == 6


def test_ticks_outlive_a_reload_but_not_on_another_page(screen, show):
    screen.click("#table tbody tr:nth-child(2) input")
    screen.chromium.refresh()
    assert screen.ticks() == [False, True, False, False, False, False]
    assert show(make(few()[:5])).ticks() == [False] * 5


def test_a_cell_of_the_matrix_shows_its_suspects(screen):
    # The middle of cell (1, 0): dog that was labeled cat.
    screen.script(
        """const box = arguments[0].getBoundingClientRect();
        const at = {clientX: box.left + box.width * 0.1, clientY: box.top + box.height * 0.3, bubbles: true};
        arguments[0].dispatchEvent(new PointerEvent("pointermove", at));
        arguments[0].dispatchEvent(new PointerEvent("click", at));""",
        screen["map"],
    )
    assert screen["cell"].text == "dog is labeled cat: 5.0%"
    assert screen.names() == [NAMES[0]]
    assert screen["count"].text == "1 of 6 shown"


def test_everything_can_be_done_by_keyboard(screen):
    focused = lambda: screen.chromium.switch_to.active_element  # noqa: E731
    screen["map"].send_keys(Keys.ARROW_DOWN)
    assert screen["cell"].text == "dog is labeled cat: 5.0%"
    assert screen.script("return document.getElementById('cursor').getAttribute('y')") == "1"
    screen["map"].send_keys(Keys.ENTER)
    assert screen.names() == [NAMES[0]]
    reached = set()
    for _ in range(25):
        focused().send_keys(Keys.TAB)
        element = focused()
        reached.add(element.get_attribute("id") or element.get_attribute("data-sort") or element.get_attribute("type"))
        if element.get_attribute("id") == "download":
            break
    assert {
        "filter-name",
        "filter-given",
        "filter-suggested",
        "filter-ticked",
        "filter-probability",
        "reset",
    } <= reached
    assert {"tick-shown", "untick-shown", "name", "probability", "checkbox", "download"} <= reached
    assert screen.script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    screen.all("#filters [type=reset]")[0].send_keys(Keys.SPACE)
    screen.wait(lambda: len(screen.names()) == 6)
    boxes = screen.all("#table tbody input")
    boxes[0].send_keys(Keys.ARROW_DOWN)
    assert focused() == boxes[1]
    focused().send_keys(Keys.SPACE)
    assert screen.ticks() == [False, True, False, False, False, False]
    screen.all("[data-sort=name]")[0].send_keys(Keys.ENTER)
    assert screen.all("th.called")[0].get_attribute("aria-sort") == "ascending"


def test_every_control_has_a_name(screen):
    for control in screen.all("button, input, select, [role=application], [role=region]"):
        if control.is_displayed():
            assert control.accessible_name.strip(), control.get_attribute("outerHTML")


def test_all_suspects_are_listed_but_few_are_elements(show, downloads):
    rng = np.random.default_rng(0)
    order = rng.permutation(5000)
    suspects = [Suspect(f"{k}.png", CLASSES[k % 2], CLASSES[1 - k % 2], k / 5000) for k in order.tolist()]
    screen = show(make(suspects))
    count = "return document.querySelectorAll('*').length"
    elements = screen.script(count)
    assert elements < 3000
    assert screen.names()[:50] == [f"{k}.png" for k in range(4999, 4949, -1)]
    assert screen.texts("#count") == ["5,000 shown"]
    # At the end of the list are the last suspects, and what is far away is empty again.
    screen.script("document.getElementById('download').scrollIntoView()")
    screen.script("scrollTo(0, document.documentElement.scrollHeight)")
    screen.wait(lambda: screen.names()[-1:] == ["0.png"])
    screen.wait(lambda: screen.script(count) < elements + 2500)
    where = "return document.getElementById('table').getBoundingClientRect().height"
    height = screen.script(where)
    screen.script("scrollTo(0, document.documentElement.scrollHeight / 2)")
    screen.wait(lambda: any(f"{k}.png" in screen.names() for k in range(2300, 2700)))
    assert abs(screen.script(where) - height) < 0.02 * height  # the scroll bar does not jump
    screen.sort("name")
    assert screen.names()[:50] == [f"{k}.png" for k in range(50)]
    screen["filter-name"].send_keys("999")
    assert screen.names() == ["999.png", "1999.png", "2999.png", "3999.png", "4999.png"]
    screen["filter-name"].send_keys(Keys.BACKSPACE * 3)
    screen.pick("filter-given", "dog")
    screen.click("#tick-shown")
    assert screen.texts("#ticked") == ["2,500 accepted"]
    assert exported(screen, downloads).count(b"\r\n") == 2501


class TestContents:
    COLUMNS = ("age", HOSTILE, "town", "pay", "note")

    @pytest.fixture
    def people(self, show):
        rows = [Suspect(f"row {k}", "cat", "dog", 0.9 - k / 100, None, [str(20 + k), "", "Ulm", f"{k}.5", HOSTILE],
                        [3, 2], [0, 1]) for k in range(3)]  # fmt: skip
        like = [
            Example("row 8", "dog", ["28", "x", "Bonn", "8.5", ""]),
            Example("row 9", "dog", ["29", "y", "", "9", "z"]),
        ]
        return show(make(rows, columns=self.COLUMNS, examples=like))

    def test_the_most_telling_cells_come_first_and_the_rest_on_opening(self, people):
        assert people.texts("#table .contents:nth-child(2) dt") == ["pay", "town", "age", "note"]
        assert people.texts("#table .contents:nth-child(2) dd") == ["0.5", "Ulm", "20", HOSTILE]
        assert people.texts(".compared") == []
        people.click(".more")
        assert people.texts(".compared tbody th") == ["pay", "town", "age", HOSTILE, "note"]
        cells = people.texts(".compared tbody tr:first-child td")
        assert cells == ["0.5", "8.5", "9"]
        assert people.texts(".compared thead th") == ["", "row 0: cat?", "row 8: dog", "row 9: dog"]
        assert people.texts(".compared p") == ["Looks like these, which are confidently labeled dog."]
        focused = people.script("return [document.activeElement.className, document.activeElement.ariaExpanded]")
        assert "more" in focused[0]
        assert focused[1] == "true"
        people.click(".more")
        assert people.texts(".compared") == []

    def test_open_all_and_search_inside(self, people):
        people.click("#open-all")
        assert len(people.texts(".compared")) == 3
        people.click("#open-all")
        assert people.texts(".compared") == []
        people["filter-name"].send_keys("21")
        assert people.names() == ["row 1"]

    def test_pictures_of_what_it_looks_like(self, show):
        rows = [Suspect("1.png", "cat", "dog", 0.9, png(1), alike=[0, 1])]
        screen = show(make(rows, examples=[Example(f"{k}.png", "dog", thumbnail=png(k)) for k in (7, 8)]))
        alt = "return [...document.querySelectorAll('td.alike img')].map((i) => i.alt)"
        assert screen.script(alt) == ["7.png, labeled dog", "8.png, labeled dog"]


def test_dark_and_light(screen):
    def brightness(color):
        return sum(map(int, color.strip("rgb()").split(",")))

    seen = {}
    for dark in (False, True):
        screen.dark(dark)
        look = "const s = getComputedStyle(document.querySelector('.card')); return [s.backgroundColor, s.color]"
        seen[dark] = [brightness(color) for color in screen.script(look)]
    assert seen[False][0] - seen[False][1] > 500  # light ground, dark ink
    assert seen[True][1] - seen[True][0] > 500


@pytest.mark.parametrize("n_classes", [2, 10, 30, 100])
def test_the_page_never_scrolls_sideways(show, n_classes):
    classes = [f"a class with quite a long name {k}" for k in range(n_classes - 1)] + ["W" * 80]
    suspects = [Suspect("n" * 200, classes[0], classes[-1], 0.5, png(9)), Suspect("1", classes[-1], classes[0], 0.5)]
    screen = show(make(suspects, classes))
    for width in (320, 360, 768, 1280):
        screen.size(width, 800)
        wide, inner = screen.script("return [document.documentElement.scrollWidth, innerWidth]")
        assert inner == width
        assert wide <= width
        # Each label of the matrix stands at the middle of its row.
        off = screen.script(
            """const middle = (e) => { const b = e.getBoundingClientRect(); return b.top + b.height / 2; };
            const box = document.getElementById("map").getBoundingClientRect();
            const labels = [...document.querySelectorAll(".rows .name")];
            const height = box.height / labels.length;
            return Math.max(...labels.map((e, k) => Math.abs(middle(e) - box.top - (k + 0.5) * height)));"""
        )
        assert off < 1.5
        for control in ("download", "tick-shown", "filter-name"):
            box = screen[control].rect
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
