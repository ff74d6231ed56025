"""Run the guide from top to bottom and put in what its commands print now: python docs/fill_guide.py

The Python blocks and the lines that begin with ``$`` are run in order in a temporary folder. What a command prints
replaces what the guide shows below it; where the guide has ``...``, lines stay left out. Numbers in the text are not
replaced: read ``git diff docs/guide.md`` and correct them by hand. Needs all extras (pip install 'unflip[all]').
"""

import os
import re
import runpy
import subprocess
import sys
import tempfile
from difflib import get_close_matches
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide.md"
SKIPPED = "--dask"  # needs a cluster
PROGRESS = re.compile(r"[a-z]+ing ")  # "reading fruit.csv": a progress bar on a terminal


def output(command: str) -> list[str]:
    """Run a command of the guide and return the lines that it prints, including errors but not progress."""
    environment = {**os.environ, "COLUMNS": "120", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, shell=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = [line.rstrip() for line in done.stdout.decode().rstrip().splitlines()]
    return [line for line in lines if not PROGRESS.match(line)]


def shortened(lines: list[str], shown: list[str]) -> list[str]:
    """Return the new lines, leaving out what the shown ones leave out with ``...``."""
    if "..." not in shown:
        return lines
    kept: list[str] = []
    position = 0
    for i, line in enumerate(shown):
        if line == "...":
            kept.append(line)
            if i + 1 < len(shown):  # go on at the line that is most like the next one shown
                (following,) = get_close_matches(shown[i + 1], lines[position:], 1, 0.0)
                position = lines.index(following, position)
        elif position < len(lines):
            kept.append(lines[position])
            position += 1
    return kept


def refreshed(text: str) -> str:
    """Run everything in the text, in order, and return it with the new outputs."""
    lines, namespace = text.splitlines(), {"__name__": "__main__"}
    new: list[str] = []
    i = 0
    while i < len(lines):
        if lines[i] == "```python":
            end = lines.index("```", i)
            exec("\n".join(lines[i + 1 : end]), namespace)
            new += lines[i : end + 1]
            i = end + 1
        elif lines[i].startswith("    $ ") and SKIPPED not in lines[i]:
            end = i + 1
            while end < len(lines) and re.match(r"    (?!\$ )|$", lines[end]):
                end += 1
            shown = [line[4:] for line in lines[i + 1 : end]]
            while shown and not shown[-1]:  # blank lines after the block
                shown.pop()
            print(lines[i], flush=True)
            found = shortened(output(lines[i][6:]), shown)
            new += [lines[i], *(f"    {line}".rstrip() for line in found)]
            i += 1 + len(shown)
        else:
            new.append(lines[i])
            i += 1
    return "\n".join(new) + "\n"


def main() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        runpy.run_path(str(ROOT / "examples" / "csv_to_model.py"))["write_fruit"](Path(folder))
        import pandas as pd

        for column in re.findall(r"predict model without-(\w+)\.csv", text):  # for the message about a missing column
            pd.read_csv("fruit.csv").drop(columns=column).to_csv(f"without-{column}.csv", index=False)
        GUIDE.write_text(refreshed(text), encoding="utf-8")
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
