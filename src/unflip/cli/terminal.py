"""What the commands share: reading DATA, errors in one sentence, progress, and tables of the noise."""

import inspect
import io
import json
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from unflip import registry
from unflip._output import FULL, check_apart, full_disk, short_names

if TYPE_CHECKING:
    from unflip._validation import FloatArray
    from unflip.commands import Noise
    from unflip.metrics import CleanAccuracy

LONGEST_NAME = 10  # characters of a class in a table of T
RATES = 20  # columns of the terminal that rates and shares take
FLIPS = 12  # the most frequent flips, printed if T is too wide
INTERRUPTED = 130
MISTAKES = (ValueError, OSError, ImportError, MemoryError)  # their messages from the package are complete
TRACEBACK = "UNFLIP_TRACEBACK"  # environment variable: show where an error happened
QUIET = "Print nothing but errors, warnings and the result itself: no progress, and no summary of files."
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help=QUIET)]
OUTPUTS = ("out", "onnx", "page", "predict_missing", "log")  # options that name what is written
PRINTED = ("card", "list_datasets", "status", "transition")  # commands whose result is printed unless they have --out


class State:
    """The command that is running: whether it is quiet, and when it began, as time.monotonic() has it."""

    quiet = False
    begun = time.monotonic()


def quietable(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the option ``--quiet``; it also begins the clock of :func:`seconds`."""

    @wraps(command)
    def run(*, quiet: bool, **options: Any) -> None:
        out = options.get("out")
        printed = options.get("as_json") or str(out) == "-" or (command.__name__ in PRINTED and out is None)
        before = State.quiet, State.begun
        State.quiet, State.begun = quiet, _process_start() if _is_program() else time.monotonic()
        try:
            with one_sentence():
                check_apart(*_paths(options))
            with redirect_stdout(io.StringIO() if quiet and not printed else sys.stdout):
                command(**options)
        finally:
            State.quiet, State.begun = before

    signature = inspect.signature(command)
    last = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), last])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "quiet": Quiet}
    return run


def _paths(options: Mapping[str, Any]) -> tuple[list[Path], list[Path]]:
    """Return the paths that a command writes to, and all others."""
    found: tuple[list[Path], list[Path]] = ([], [])
    for name, value in options.items():
        if name == "transition" and value != "auto" and value not in registry.names("transition"):
            value = Path(value)
        values = value if isinstance(value, list) else [value]
        found[name not in OUTPUTS].extend(path for path in values if isinstance(path, Path))
    return found


def seconds() -> float:
    """Return the seconds since the command began, with the time that Python took to start."""
    return time.monotonic() - State.begun


def progress(as_json: bool = False) -> bool | str:
    """Return whether a network shows its progress."""
    return False if as_json or State.quiet else "auto"


def _is_program() -> bool:
    """Return whether this process is the command, rather than a program that calls it."""
    path = Path(sys.argv[0])
    return path.stem == "unflip" or path.parts[-3:] == ("unflip", "cli", "__main__.py")


def _process_start() -> float:
    """Return when this process started, in the time of time.monotonic(); where unknown, when this file was imported."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.monotonic() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError):
        return State.begun


def read(
    data: Path | list[Path],
    label: str | None,
    weights: str | None,
    drop: list[str] | None,
    image_size: str | None,
    kinds: Mapping[str, str] | None = None,
    *,
    encoding: str | None = None,
    text: str = "tfidf",
    several: tuple[str | None, str | None, str | None] = (None, None, None),
) -> Any:
    """Read DATA with its labels; ``kinds`` are those of columns that are already known.

    ``several`` are --label-columns, --item and --annotator.
    """
    from unflip.commands.consensus import annotated_table, split_names
    from unflip.tables import read_table
    from unflip.tables.read import left_out, spooled

    paths = [Path(spooled()) if str(path) == "-" else path for path in (data if isinstance(data, list) else [data])]
    crowd = split_names(*several, label)
    if not crowd and any(path.is_file() and path.suffix.lower() not in (".npz", ".safetensors") for path in paths):
        required(label, data)
    size = re.fullmatch(r"([1-9][0-9]*)x([1-9][0-9]*)", image_size or "", re.IGNORECASE)
    if image_size is not None and size is None:
        raise typer.BadParameter(
            f"it must be HEIGHTxWIDTH, such as 32x32; got {image_size!r}", param_hint="--image-size"
        )
    sides = None if size is None else (int(size[1]), int(size[2]))
    how: dict[str, Any] = {"image_size": sides, "kinds": kinds, "encoding": encoding}
    if crowd:
        how["kinds"] = dict(kinds or {}) | dict.fromkeys(crowd, "category")
        plain = read_table(paths, False, weights, drop or (), **how)
        table, lost = annotated_table(plain, *several, label)
        if lost:
            said = left_out(lost, lost + len(table.names), "no label of any annotator")
            typer.echo(f"{shown(called(data))}: {said}", err=True)
        return replace(table, text=str(text))
    table = read_table(paths, label, weights, drop or (), **how)
    if table.unlabeled is not None:
        lost = len(table.unlabeled.names)
        said = left_out(lost, lost + len(table.names))
        typer.echo(f"{shown(called(data))}: {said}", err=True)
    return replace(table, text=str(text))


def one_label_only(label_columns: str | None, item: str | None, annotator: str | None) -> None:
    """Refuse several annotators where a table is read in blocks."""
    for name, value in (("--label-columns", label_columns), ("--item", item), ("--annotator", annotator)):
        if value is not None:
            raise typer.BadParameter("it has no meaning with --out-of-core; leave it out", param_hint=name)


def required(label: str | None, data: Path | list[Path]) -> str:
    """Return the name of the label's column, or say that it is missing."""
    if label is None:
        raise ValueError(f"{called(data)} needs --label COLUMN, the column of its labels")
    return label


def called(data: Path | list[Path], whole: bool = True) -> str:
    """Return what DATA is called in a sentence: its path, or only the last part of it."""
    first, *others = data if isinstance(data, list) else [data]
    name = "standard input" if str(first) == "-" else str(first) if whole else os.path.basename(os.path.realpath(first))
    return f"{name} and {len(others)} more" if others else name


def read_matrix(transition: str, table: Any, network: str, seed: int) -> Any:
    """Return T from a file, in the order of the classes, an estimator of T by its name, or None for "auto"."""
    if transition == "auto":
        return None
    import numpy as np

    from unflip.commands import read_transition
    from unflip.commands.fit import labels, make_transition_estimator

    if transition in registry.names("transition"):
        return make_transition_estimator(transition, network, random_state=seed)
    if not Path(transition).suffix and not Path(transition).exists():
        raise ValueError(
            f"{transition!r} is neither a file nor an estimator of T; give a .json, .csv or .npy file, or one of "
            f"{', '.join(registry.names('transition'))}"
        )
    return read_transition(transition, np.unique(labels(table)))


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn an error into one sentence and exit code 1, each warning into one line, and Ctrl-C into a word.

    If the environment variable ``UNFLIP_TRACEBACK`` is set, an error shows where it happened.
    """

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        typer.echo(f"unflip: warning: {_line(message)}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        try:
            yield
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BrokenPipeError:  # such as "| head", which has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            typer.echo("unflip: stopped; nothing was written", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            text, kind = _line(error), type(error).__name__
            if isinstance(error, OSError) and text.startswith("[Errno") and (number := full_disk(error)) is not None:
                text = f"the output cannot be written: {FULL[number]} ({os.strerror(number)})"
            if not isinstance(error, MISTAKES):  # the cause may be ours
                text = f"{kind}{': ' * bool(text)}{text.rstrip('.')}. To see where, set {TRACEBACK}=1"
            typer.echo(f"unflip: {text or kind}", err=True)
            raise typer.Exit(1) from None


@contextmanager
def steps(network: str = "linear") -> Iterator[Callable[..., None]]:
    """Give a function ``tell(text, done=None)`` that says which step begins, and which share of it is done.

    It shows a bar on a terminal, prints a line when piped, and nothing if the command is quiet. A network has a bar of
    its own, which this one would disturb, so that lines are printed there, too.
    """
    console = Console(stderr=True)
    if State.quiet:
        yield lambda text, done=None: None
        return
    if not console.is_terminal or network != "linear":
        yield lambda text, done=None: typer.echo(shown(text), err=True)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, done=None: bar.reset(
            task, description=shown(text), total=None if done is None else 1.0, completed=done or 0
        )


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=1))


def print_noise(console: Console, noise: "Noise", rates: "FloatArray | None" = None, rate: float | None = None) -> None:
    """Print T with its class names and the noise rate of each class; if T is too wide, its main flips.

    ``rates`` and ``rate`` are the shares of wrong labels, by class and in total, if they are known better than from T;
    a ``rate`` of NaN cannot be told.
    """
    rates, rate = noise.noise_rates if rates is None else rates, noise.noise_rate if rate is None else rate
    names = short_names([shown(name) for name in noise.names], LONGEST_NAME)
    widest = max(map(len, names))
    whole = (len(names) + 1) * (max(widest, 3) + 2) + RATES <= console.width
    if not whole:  # there is room for longer names
        names = short_names([shown(name) for name in noise.names], max(LONGEST_NAME, console.width - RATES - 4))
        widest = max(map(len, names))
    table = plain_table()
    table.add_column("clean", no_wrap=True, min_width=widest)
    for header in [*(names if whole else []), "noise rate", "share"]:
        table.add_column(cell(header), justify="right", no_wrap=True)
    for i, name in enumerate(names):
        matrix = [f"{p:.0%}"[:-1] if p >= 0.005 else "." for p in noise.transition[i]] if whole else []
        table.add_row(cell(name), *matrix, f"{rates[i]:.1%}", f"{noise.class_prior[i]:.1%}")
    title = "T = P(given label | clean label) in %, one row per clean label" if whole else "Noise of each clean class"
    console.print(title, highlight=False)
    console.print(table)
    flips = bool((noise.transition.diagonal() < 1).any())
    if not whole and flips:
        _print_flips(console, noise)
    if math.isnan(rate):
        said = "How many of the labels are wrong cannot be told."
    else:
        said = f"About {rate:.1%} of the labels are wrong." if rate or flips else "No noise was found in the labels."
    console.print(f"{said}\n", highlight=False)


def print_accuracies(console: Console, n_labels: int, scores: Mapping[str, "CleanAccuracy"]) -> None:
    """Print the estimated clean accuracies of classifiers by name."""
    console.print(f"Accuracy on clean labels, estimated from {n_labels:,} noisy ones", highlight=False)
    table = plain_table("classifier", right=("estimate [95 %]",))
    for name, score in scores.items():
        table.add_row(cell(name), cell(estimate(score)))
    console.print(table)


def print_candidates(console: Console, n_labels: int, candidates: Sequence[Any]) -> None:
    """Print the models that were compared, each with its estimated clean accuracy; which was chosen, and why."""
    from unflip.commands.fit import explain_choice

    console.print(
        f"Models compared on {n_labels:,} noisy labels, each judged on rows that it was not trained on", highlight=False
    )
    table = plain_table("model", "", right=("accuracy [95 %]",))
    for one in candidates:
        table.add_row(cell(one.name), "corrected" if one.corrected else "uncorrected", cell(estimate(one.accuracy)))
    console.print(table)
    console.print(explain_choice(candidates) + "\n", highlight=False, markup=False)


def print_notes(notes: Sequence[str]) -> None:
    """Print what the data cannot tell, a sentence per line."""
    for note in notes:
        typer.echo(f"Note: {shown(note)}")


def print_findings(findings: Sequence[Any]) -> None:
    """Print what the checks of the data found, except for columns that are listed as not used."""
    for finding in findings:
        if finding.kind != "constant":
            typer.echo(f"Check: {shown(finding.sentence)}")


def estimate(score: "CleanAccuracy") -> str:
    """Return an estimated accuracy with its interval, in percent and clipped to 0 .. 100."""
    return f"{min(max(score.estimate, 0), 1):.1%} [{100 * score.low:.1f}, {100 * score.high:.1f}]"


def print_unused(columns: Mapping[str, str]) -> None:
    """Name the columns that are not used, and why."""
    for name, reason in columns.items():
        typer.echo(f"Column not used: {shown(name)}: {reason}")


def print_unused_of(table: Any, network: str) -> None:
    """Name the columns of a table that are not used, and why."""
    from unflip.commands.fit import samples, unused_columns

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown when the table was used
        print_unused(unused_columns(samples(table.X, network)))


def plain_table(*left: str, right: tuple[str, ...] = ()) -> Table:
    """Return a table without a frame."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in left:
        table.add_column(title, overflow="fold")
    for title in right:
        table.add_column(title, justify="right")
    return table


def cell(text: Any) -> Text:
    """Return a name as text in which nothing is markup or a control sequence."""
    return Text(shown(text))


def shown(text: Any) -> str:
    """Return a name or a path as part of a line of output, without control characters."""
    return "".join(char if char.isprintable() else "?" for char in str(text))


def _print_flips(console: Console, noise: "Noise") -> None:
    expected = noise.class_prior[:, None] * noise.transition
    cells = [(float(expected[i, j]), i, j) for i, j in zip(*expected.nonzero(), strict=True) if i != j]
    table = plain_table("clean", "given", right=("P(given | clean)",))
    console.print("\nThe most frequent flips")
    for _, i, j in sorted(cells, reverse=True)[:FLIPS]:
        table.add_row(cell(noise.names[i]), cell(noise.names[j]), f"{noise.transition[i, j]:.2f}")
    console.print(table)


def _line(message: object) -> str:
    return shown(" ".join(str(message).split()))
