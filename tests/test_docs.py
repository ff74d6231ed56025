"""The documentation describes what exists, and the code in the guide runs."""

import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

import unflip
from tests.test_readme import run_blocks
from unflip import registry
from unflip.linear import __all__ as LINEAR

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.rst")))
CONSTANTS = {"FORMAT"}


def described():
    """Return every name that a page of the reference describes, as module.name."""
    module, found = "", set()
    for line in PAGES.splitlines():
        if match := re.match(r"\.\. (currentmodule|autoclass|autofunction|autoexception):: (\S+)", line):
            kind, name = match.groups()
            if kind == "currentmodule":
                module = name
            else:
                found.add(f"{module}.{name}")
    return found


def test_reference_describes_every_public_name():
    pytest.importorskip("torch")
    source = ROOT / "src" / "unflip"
    modules = [".".join(path.parent.relative_to(source).parts) for path in source.glob("*/**/__init__.py")]
    public = {f"unflip.{module}.{name}" for module in modules for name in _all(f"unflip.{module}") - CONSTANTS}
    public -= {f"unflip.deep.{name}" for name in ("Method", "find_method", "make_method")}  # among deep.methods
    public |= {f"unflip.{module.split('.')[0]}.{name}" for name, module in unflip._HOME.items()}
    assert not public - described()


def test_reference_lists_what_it_describes():
    # Each name is also in the table at the top of its section.
    listed = re.findall(r"^   (\w+)$", PAGES, re.MULTILINE)
    assert {name.rsplit(".", 1)[1] for name in described()} <= set(listed)


@pytest.mark.parametrize(
    "name",
    [
        *registry.names("linear"),
        *registry.names("deep"),
        *(name for name in LINEAR if name.endswith(("Classifier", "CV"))),
    ],
)
def test_methods_page_has_the_method(name):
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    assert f"| `{name}` |" in page or f"import {name}` |" in page


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_that_a_page_names_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|tests|benchmarks|docs|examples|experiments)/[^`\s<>*]*)`", text)
    assert len(paths) >= 5
    assert not [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.slow
def test_the_guide_runs(tmp_path, monkeypatch):
    for library in ("pandas", "safetensors", "jinja2"):
        pytest.importorskip(library)
    runpy.run_path(str(ROOT / "examples" / "csv_to_model.py"))["write_fruit"](tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_blocks(DOCS / "guide.md") >= 6
    assert {"audit", "model", "fruit.csv"} <= {path.name for path in tmp_path.iterdir()}


def test_the_page_for_users_of_cleanlab_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("cleanlab")
    monkeypatch.chdir(tmp_path)
    assert run_blocks(DOCS / "coming_from_cleanlab.md") == 4
    shown = capsys.readouterr().out
    (theirs, ours, *_) = re.findall(r"precision (\S+), recall (\S+)", shown)
    assert all(float(mine) > float(other) + 0.1 for mine, other in zip(ours, theirs, strict=True))
    cleaned, corrected, _ = map(float, re.findall(r"accuracy on clean labels (\S+)", shown))
    assert corrected > cleaned + 0.04


def _all(module):
    return set(getattr(import_module(module), "__all__", []))
