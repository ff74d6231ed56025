"""Count the source files that a command visits: those of which at least one function runs.

Traces ``unflip fit`` on a CSV file and ``unflip predict`` with the model that it saved. Files that are merely imported
do not count, since a reader who follows the command never opens them.

    python benchmarks/visited_files.py [--list]
"""

import argparse
import sys
import tempfile
from pathlib import Path
from types import CodeType

import numpy as np

import unflip
from unflip.cli import app

SOURCE = str(Path(unflip.__file__).parent)
NAMELESS = ("<module>", "<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")


def visited(arguments: list[str]) -> list[str]:
    """Run a command of ``unflip`` and return the files of the package in which a function ran, sorted."""
    codes: set[CodeType] = set()

    def see(frame, event, argument):  # type: ignore[no-untyped-def]
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            codes.add(frame.f_code)

    sys.setprofile(see)
    try:
        app(arguments, standalone_mode=False)
    finally:
        sys.setprofile(None)
    bodies = {code for code in codes if not _is_class_body_or_nameless(code)}
    return sorted({str(Path(code.co_filename).relative_to(SOURCE)) for code in bodies})


def _is_class_body_or_nameless(code: CodeType) -> bool:
    # A function is optimized (its locals are in slots). The bodies of modules and classes run at import and are not.
    return code.co_name in NAMELESS or not code.co_flags & 0x1


def write_people(path: Path, n: int = 400) -> None:
    """Write a table with numbers and a category, whose labels are noisy."""
    random = np.random.default_rng(0)
    job = random.integers(3, size=n)
    age, pay = 25 + 15 * job + random.normal(0, 4, n), 30 + 20 * job + random.normal(0, 8, n)
    noisy = np.where(random.uniform(size=n) < 0.2, (job + 1) % 3, job)
    names = np.array(["baker", "doctor", "pilot"])[noisy]
    lines = [f"{a:.1f},{p:.1f},{'ab'[int(j > 0)]},{name}" for a, p, j, name in zip(age, pay, job, names, strict=True)]
    path.write_text("\n".join(["age,pay,town,job", *lines]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the files")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "people.csv"), Path(folder, "model")
        write_people(data)
        commands = {
            "fit": ["fit", str(data), "--label", "job", "--out", str(model), "--json"],
            "predict": ["predict", str(model), str(data), "--out", str(Path(folder, "predictions.csv")), "--json"],
        }
        counts = {}
        for name, arguments in commands.items():
            files = visited(arguments)
            counts[name] = len(files)
            if chosen.list:
                print(*files, sep="\n")
    for name, count in counts.items():
        print(f"unflip {name}: {count} files")


if __name__ == "__main__":
    main()
