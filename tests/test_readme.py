"""The Python blocks of README.md run, in order, in one namespace; blocks with >>> print what they show."""

import doctest
import re
from pathlib import Path

import pytest

from tests import light_models

README = Path(__file__).parents[1] / "README.md"
QUICKER = {"max_iter=50": "max_iter=8", "range(200)": "range(20)", "epochs=60": "epochs=10"}
BLOCK = re.compile(r"^```(?:python|pycon)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[tuple[int, str]]:
    """Return each block of Python code with the number of lines before it."""
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in BLOCK.finditer(text)]


def run_blocks(path: Path, replaced: dict[str, str] | None = None) -> int:
    """Run the blocks of a Markdown file, with some words replaced, and return their number."""
    namespace: dict = {"__name__": "__main__"}
    text = path.read_text(encoding="utf-8")
    for old, new in (replaced or {}).items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    blocks = python_blocks(text)
    for lines_before, code in blocks:
        if code.lstrip().startswith(">>>"):
            check_session(code, namespace, path, lines_before)
        else:
            # The leading newlines make the line numbers in a traceback match those of the file.
            exec(compile("\n" * lines_before + code, str(path), "exec"), namespace)
    return len(blocks)


def check_session(code: str, namespace: dict, path: Path, lines_before: int) -> None:
    test = doctest.DocTestParser().get_doctest(code, {}, path.name, str(path), lines_before)
    test.globs = namespace  # not a copy: later blocks see what this one defines
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    runner.run(test, out=report.append, clear_globs=False)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_readme(tmp_path, monkeypatch, quick):
    pytest.importorskip("torch")
    if quick:
        light_models.use(monkeypatch)
    monkeypatch.chdir(tmp_path)  # so that no block writes into the repository
    assert run_blocks(README, QUICKER if quick else None) > 0, "README.md has no ```python block"
