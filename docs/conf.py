"""Sphinx settings; `make docs` builds the pages."""

import re
from typing import Any

from unflip import __version__

project = "unflip"
author = "the unflip developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"unflip {version}"
html_show_copyright = False
html_show_sphinx = False

myst_heading_anchors = 3
highlight_language = "none"  # formulas are not Python

autosummary_generate = False  # every name has its own place on a page in api/
autodoc_typehints = "none"  # the docstrings say more
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "inherited-members": "tuple, object",  # from private bases; skip_foreign leaves out other libraries
}
numpydoc_show_class_members = False

OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)")
LITERAL = re.compile(r"(``.*?``|`[^`]*`)")


def link_outside(app: Any, name: str, source: list[str]) -> None:
    """Turn links to files of the repository, such as ``../benchmarks/results``, into downloads."""
    source[0] = OUTSIDE.sub(r"{download}`\1 <\2>`", source[0])


def escape(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape ``|u|`` and ``(n_features_in_,)``, which are plain text in our docstrings but markup in reST.

    A ``::`` at the end of the summary gets its own paragraph; otherwise numpydoc would separate it from its block.
    """
    if lines and lines[0].endswith("::"):
        lines[:1] = [lines[0][:-1], "", "::"]
    block = None  # indentation of the paragraph that announced a literal block
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if block is not None and line.strip() and indent <= block:
            block = None
        if block is None and not line.lstrip().startswith(">>>"):
            parts = LITERAL.split(line)
            parts[::2] = [re.sub(r"\||(?<=\w)_(?=,\))", r"\\\g<0>", part) for part in parts[::2]]
            lines[i] = "".join(parts)
            if line.rstrip().endswith("::"):
                block = indent


def skip_foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what a class inherits from scikit-learn or PyTorch; their own pages describe it."""
    module = getattr(getattr(obj, "fget", obj), "__module__", None) or "unflip"
    return None if module.startswith("unflip") else True


def setup(app: Any) -> None:
    app.connect("source-read", link_outside)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", escape, priority=400)  # before numpydoc, at 500
