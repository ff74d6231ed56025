"""``unflip audit``: which labels of a table are probably wrong."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from unflip.cli import options, terminal

SHOWN = 10  # suspects on the terminal
ID = "Column that names the rows, in the lists, on the page and for unflip apply. It is not used as a feature."
GROUPS = "Column of groups, such as a person's number: rows of one group are held out together. Not used as a feature."
PROBABILITIES = (
    "Instead of a model: out-of-sample probabilities of the labels, one column per class. CSV, Parquet or NPY."
)
EXPORT = (
    "Also write the suspects as tasks for this tool, for review there; unflip apply takes the answers. May be repeated."
)
Tool = StrEnum("Tool", {"label_studio": "label-studio", "argilla": "argilla"})
JUDGE = "Judge the labels by this saved model of unflip fit, which has not seen these rows, instead of training one."


def audit(
    data: options.Data,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the lists and the page.")],
    label: options.Label = None,
    id_: Annotated[str | None, typer.Option("--id", metavar="COLUMN", help=ID)] = None,
    model: options.ModelOption = None,
    network: options.NetworkOption = None,
    probabilities: Annotated[Path | None, typer.Option(metavar="FILE", help=PROBABILITIES)] = None,
    judge: Annotated[Path | None, typer.Option(metavar="MODEL", help=JUDGE)] = None,
    transition: options.Transition = "auto",
    folds: Annotated[int, typer.Option(min=2, help="Each label is judged by a model trained on the other folds.")] = 5,
    export: Annotated[list[Tool] | None, typer.Option(help=EXPORT)] = None,
    groups: Annotated[str | None, typer.Option(metavar="COLUMN", help=GROUPS)] = None,
    weights: options.Weights = None,
    drop: options.Drop = None,
    image_size: options.ImageSize = None,
    epochs: options.Epochs = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Find the labels that are probably wrong, and suggest better ones.

    FOLDER gets suspects.csv (the labels with a better suggestion, surest first,
    with the contents of their rows), labels.csv (every label with its
    probability of being wrong), summary.json, and index.html, a page to browse,
    tick corrections on and export them from; unflip apply makes them.

    Example: unflip audit people.csv --label job --id number --out audit

    Example: unflip audit people.csv --label job --model trees --out audit

    Example: unflip audit new.csv --label job --judge model --out audit
    """
    with terminal.one_sentence():
        from unflip.commands import compare_classifiers, judge_table, write_audit
        from unflip.commands.audit import FILES, GIVEN, explain_counts, noise_of
        from unflip.commands.fit import check_network, resolve_model
        from unflip.commands.folders import check_folder
        from unflip.models import load

        trained = resolve_model(model, None, network)[1]
        check_network(trained, epochs)
        _check_judge(probabilities, judge, model, network)
        check_folder(out, FILES)
        with terminal.steps(trained) as tell:
            tell(f"reading {data}")
            saved = None if judge is None else load(judge)
            table, group = _read(data, label, id_, groups, weights, drop, image_size, getattr(saved, "kinds", {}))
            judging = f"judging {len(table.y):,} labels"
            T = terminal.read_matrix(transition, table, trained, seed)
            if saved is not None:
                tell(judging)
                errors = judge_table(saved, table, T)
            else:
                errors = _audited(
                    table,
                    probabilities,
                    model=model,
                    network=network,
                    transition=T,
                    folds=folds,
                    groups=group,
                    epochs=epochs,
                    random_state=seed,
                    progress=False if as_json else "auto",
                    # Some models deal the folds themselves.
                    on_fold=lambda k: tell(judging if k == 0 else f"{judging}, fold {k + 1} of {folds}", k / folds),
                )
            if not errors.candidates:
                tell("estimating the accuracy")
            named = None if judge is None and probabilities is None else f"model {judge}" if judge else GIVEN
            compared = compare_classifiers(
                errors, table, model=model, network=network, folds=folds, random_state=seed, judge=named
            )
            tell(f"writing {out}")
            summary = write_audit(
                errors, table, out, title=data.resolve().name, compared=compared, id=id_, exports=export or ()
            )
    if as_json:
        terminal.print_json({"out": str(out), **summary})
        return
    console = Console()
    terminal.print_noise(console, noise_of(errors, table.sample_weight), errors.noise_rates, errors.rate)
    if errors.candidates:
        terminal.print_candidates(console, len(errors.given), errors.candidates)
    else:
        terminal.print_accuracies(console, len(errors.given), compared)
    n_suspects = len(errors.suspects)
    if n_suspects:
        surest = terminal.plain_table("name", "given", "suggested", right=("P(wrong)",))
        for i in errors.suspects[:SHOWN]:
            names = (table.names[i], errors.given[i], errors.suggested[i])
            surest.add_row(*map(terminal.cell, names), f"{errors.scores[i]:.3f}")
        console.print(f"\nThe surest of {n_suspects:,} suspects", highlight=False)
        console.print(surest)
    terminal.print_notes(errors.notes)
    terminal.print_unused_of(table, trained)
    typer.echo(explain_counts(errors))
    typer.echo(f"Page: {terminal.shown(out / 'index.html')}")


def _check_judge(probabilities: Path | None, judge: Path | None, model: Any, network: Any) -> None:
    given = {"--probabilities": probabilities, "--judge": judge, "--model": model, "--network": network}
    named = [name for name, value in given.items() if value is not None]
    if (probabilities or judge) and len(named) > 1:
        raise ValueError(f"{' and '.join(named)} exclude each other; give one of them")


def _read(
    data: Path,
    label: str | None,
    id_: str | None,
    groups: str | None,
    weights: str | None,
    drop: list[str] | None,
    image_size: str | None,
    known: dict[str, str],
) -> tuple[Any, Any]:
    """Return the table, its rows named by the column of ``--id``, and the groups."""
    from unflip.commands import named_by
    from unflip.commands.audit import split_column

    # Read as it is written: "007" is a name, not the number seven.
    kinds = known | {name: "category" for name in (id_, groups) if name is not None}
    table, group = terminal.read(data, label, weights, drop, image_size, kinds or None), None
    if groups is not None and groups != id_:
        table, group = split_column(table, groups, "--groups")
    return (table if id_ is None else named_by(table, id_)), group


def _audited(table: Any, probabilities: Path | None, **given: Any) -> Any:
    from unflip.commands import audit_table, read_probabilities

    proba = None if probabilities is None else read_probabilities(probabilities, table)
    return audit_table(table, pred_probs=proba, **given)
