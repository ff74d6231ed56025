"""Who may import whom, read from the syntax tree of every source file; and where the tests of each file are."""

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "unflip"

# Each part imports parts to its left only, and itself.
LAYERS = (
    {"registry", "_validation", "_input", "_output"},
    {"core", "noise", "datasets"},
    {"models", "crowd"},
    {"_base"},
    {"tables"},
    {"deep", "metrics"},
    {"transition"},
    {"linear", "corrected"},
    {"audit"},
    {"bench"},
    {"report", "page"},
    {"commands"},
    {"cli"},
    {"__main__"},
)

# Which files may import a library; a path is relative to src/unflip. What is not listed is not a dependency.
ANYWHERE = ("*",)
LIBRARIES = {
    "numpy": ANYWHERE,
    "scipy": ANYWHERE,
    "sklearn": ANYWHERE,
    "rich": ANYWHERE,
    "threadpoolctl": ("tables/blocks.py",),  # scikit-learn brings it
    "typer": ("cli.py", "cli/*"),
    "torch": ("deep/*", "transition/*"),
    "safetensors": ("deep/*", "models/*", "tables/arrays.py", "tables/text.py"),
    "tokenizers": ("tables/text.py",),  # wordllama brings it
    "onnx": ("models/_onnx.py",),
    "pandas": ("datasets/*", "tables/read.py", "tables/preprocessing.py", "tables/checks.py"),
    "pyarrow": ("_output.py", "datasets/*", "tables/arrow.py", "commands/apply.py"),
    "narwhals": ("tables/frames.py",),
    "charset_normalizer": ("tables/read.py",),  # pooch brings it
    "PIL": ("datasets/*", "tables/images.py"),
    "pooch": ("datasets/*",),
    "dask": ("*/dask.py", "*/_dask.py"),
    "distributed": ("*/dask.py", "*/_dask.py", "bench/workers.py"),
    "platformdirs": ("datasets/*",),
    "filelock": ("bench/*",),
    "joblib": ("bench/*", "cli/bench.py", "tables/*"),  # scikit-learn brings it
    "matplotlib": ("report/*",),
    "jinja2": ("page/*",),
}

# Files without a test file of their own, and why.
UNTESTED = {
    "cli/__main__.py": "one call; tests/cli start it as a process",
    "cli/options.py": "declarations only; the commands that share them are tested",
}


def layer(part: str) -> int | None:
    return next((depth for depth, parts in enumerate(LAYERS) if part in parts), None)


def imports(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of everything that a file imports, at the top or inside a function."""
    package = ("unflip", *path.relative_to(root).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            # level 1 is the file's own package, each further dot one package up
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*start, *(node.module.split(".") if node.module else ())))
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def violations(root: Path) -> list[str]:
    """Each import below root that breaks a rule, as "file:line: what is wrong"."""
    found = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        part = name.split("/")[0].removesuffix(".py")
        if part != "__init__" and layer(part) is None:
            found.append(f"{name}:1: {part} has no place in LAYERS")
            continue
        for line, imported in imports(path, root):
            library, *inner = imported.split(".")
            if library == "unflip":
                problem = inner_problem(part, inner[0] if inner else "")
            else:
                problem = library_problem(name, part, library)
            if problem:
                found.append(f"{name}:{line}: {problem}")
    return found


def inner_problem(part: str, other: str) -> str | None:
    if other in (part, "__version__") or (part, other) == ("__init__", "registry"):
        return None
    if part == "__init__":
        return f"unflip/__init__.py imports {other}; its names load on first use"
    depth, other_depth = layer(part), layer(other)
    if other_depth is None:
        return f"{part} imports {other or 'unflip'} from the top package; import it from its module"
    if other_depth < depth:
        return None
    return f"{part} imports {other}"


def library_problem(name: str, part: str, library: str) -> str | None:
    if library in sys.stdlib_module_names:
        return None
    if library not in LIBRARIES:
        return f"{library} is not a declared dependency"
    if not any(fnmatch(name, pattern) for pattern in LIBRARIES[library]):
        return f"{library} belongs in {' or '.join(LIBRARIES[library])}"
    return None


def untested(root: Path, tests: Path) -> list[str]:
    """Each file below root without its test file: a/_b.py is tested in a/test_b.py."""
    files = (path.relative_to(root) for path in sorted(root.rglob("*.py")) if path.name != "__init__.py")
    return [
        file.as_posix() for file in files if not (tests / file.parent / f"test_{file.name.removeprefix('_')}").is_file()
    ]


def test_imports_keep_their_direction():
    assert (SOURCE / "__init__.py").is_file()
    assert not violations(SOURCE)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("core/prior.py", "import torch"),
        ("core/prior.py", "from ..noise import symmetric"),
        ("core/deeper/prior.py", "from ...noise import symmetric"),
        ("core/prior.py", "from .. import noise"),
        ("noise.py", "from . import linear"),
        ("noise.py", "from unflip.core import clean_prior"),
        ("_validation.py", "from unflip import core"),
        ("transition/dual_t.py", "from ..linear import MCLDCEClassifier"),
        ("linear/ule.py", "def fit():\n    import torch"),
        ("deep/trainer.py", "import unflip.transition.volmin as v"),
        ("metrics.py", "def score():\n    if True:\n        from unflip.bench import run_cell"),
        ("linear/mcldce.py", "from dask import array"),
        ("linear/mcldce.py", "from matplotlib import pyplot"),
        ("linear/mcldce.py", "from unflip import symmetric"),
        ("linear/mcldce.py", "import unflip"),
        ("linear/mcldce.py", "import torchvision"),
        ("bench/run.py", "from ..report import table"),
        ("page/write.py", "import unflip.cli"),
        ("cli.py", "import jinja2"),
        ("__init__.py", "from .noise import symmetric"),
        ("__init__.py", "import torch"),
        ("utils.py", ""),
    ],
)
def test_the_checker_finds_a_violation(tmp_path, name, code):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    assert [line.split(":")[0] for line in violations(tmp_path)] == [name]


def test_the_checker_passes_what_is_allowed(tmp_path):
    tree = {
        "__init__.py": "from importlib import import_module",
        "_validation.py": "import numpy as np\nfrom sklearn.utils import check_array",
        "core/__init__.py": "from .prior import clean_prior",
        "core/prior.py": "import math\nimport numpy as np\nfrom .._validation import check_transition",
        "transition/__init__.py": "def load():\n    from unflip.deep import VolMinNet",
        "linear/__init__.py": "from unflip.linear.mcldce import MCLDCEClassifier",
        "linear/mcldce.py": "from ..core import clean_prior\ndef fit():\n    from ..transition import VolMin",
        "linear/dask.py": "import dask.array",
        "deep/losses.py": "from torch import nn\nfrom ..core.prior import clean_prior",
        "report/figures.py": "import matplotlib.pyplot as plt\nfrom unflip import __version__",
        "cli.py": "import typer\nfrom . import report, noise",
    }
    for name, code in tree.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    assert violations(tmp_path) == []


def test_tests_mirror_the_tree():
    assert untested(SOURCE, Path(__file__).parent) == sorted(UNTESTED)


def test_a_file_without_its_test_is_found(tmp_path):
    for name in ("src/a/__init__.py", "src/a/_b.py", "src/a/c.py", "src/d.py", "tests/a/test_b.py", "tests/test_c.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert untested(tmp_path / "src", tmp_path / "tests") == ["a/c.py", "d.py"]
