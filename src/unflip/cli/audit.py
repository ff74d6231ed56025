"""``unflip audit``: which labels of a table are probably wrong."""

from enum import StrEnum
from functools import partial
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
BLOCKS = (
    "Read DATA in blocks, for tables larger than memory: a Parquet or CSV file, a folder or a pattern of them. For the "
    "models logistic, which is then the default, and mcldce. There is no labels.csv."
)
WORKERS = (
    "Read out of core on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786. They must find DATA at the "
    "same path."
)
SAMPLE = "Out of core: the number of rows from which the model and T are learned."
SUSPECTS = "Out of core: the number of suspects to keep."
JUDGE = (
    "Judge the labels by this saved model of unflip fit, which has not seen these rows, instead of training one. Train "
    "a network for this purpose with --method forward: its probabilities are better."
)


def audit(
    data: options.Data,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the lists and the page.")],
    label: options.Label = None,
    label_columns: options.LabelColumns = None,
    item: options.Item = None,
    annotator: options.AnnotatorColumn = None,
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
    encoding: options.Encoding = None,
    text: options.TextOption = options.Text.tfidf,
    out_of_core: Annotated[bool, typer.Option("--out-of-core", help=BLOCKS)] = False,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help=WORKERS, show_default=False)] = None,
    sample: Annotated[int, typer.Option(min=1, metavar="ROWS", help=SAMPLE)] = 100_000,
    suspects: Annotated[int, typer.Option(min=1, metavar="ROWS", help=SUSPECTS)] = 10_000,
    raw: options.Raw = False,
    image_size: options.ImageSize = None,
    epochs: options.Epochs = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Find the labels that are probably wrong, and suggest better ones.

    FOLDER will contain suspects.csv (the labels with a better suggestion, surest
    first, with the contents of their rows), labels.csv (every label with its
    probability of being wrong), summary.json, and index.html, a page on which
    you review the suspects and export your corrections for unflip apply.

    Example: unflip audit people.csv --label job --id number --out audit

    Example: unflip audit people.csv --label job --model trees --out audit

    Example: unflip audit people.csv --label-columns ann,bob,eve --out audit

    Example: unflip audit new.csv --label job --judge model --out audit

    Example: unflip audit people/ --label job --out audit --out-of-core
    """
    with terminal.one_sentence():
        from unflip.audit.find import speaks_of_noisy_labels
        from unflip.commands import audit_out_of_core, compare_classifiers, judge_table, write_audit
        from unflip.commands.audit import FILES, GIVEN, Totals, explain_counts, explain_interval, noise_of
        from unflip.commands.fit import check_network, resolve_model
        from unflip.commands.folders import check_folder
        from unflip.models import load

        given: dict[str, Any] = {"--probabilities": probabilities, "--judge": judge, "--model": model}
        _exclusive(given | {"--network": network})
        if out_of_core := out_of_core or dask is not None:
            others = {"--image-size": image_size, "--epochs": epochs, "--groups": groups, "--network": network}
            _check_out_of_core({**given, "--model": None, **others})
            terminal.one_label_only(label_columns, item, annotator)
        trained = resolve_model(model, None, network)[1]
        check_network(trained, epochs)
        check_folder(out, FILES)
        totals = None
        with terminal.steps(trained) as tell:
            if out_of_core:
                model = model or options.Model.logistic
                terms: Any = "lsa" if text == "tfidf" else str(text)  # which blocks of rows can hold
                errors, table, totals = audit_out_of_core(
                    data,
                    terminal.required(label, data),
                    model=model,
                    id=id_,
                    weights=weights,
                    drop=drop or (),
                    transition=None if transition == "auto" else transition,
                    folds=folds,
                    sample_size=sample,
                    most=suspects,
                    random_state=seed,
                    encoding=encoding,
                    text=terms,
                    dask=dask,
                    tell=tell,
                )
                compared = dict(totals.compared)
            else:
                tell(f"reading {terminal.called(data)}")
                saved = None if judge is None else load(judge)
                several = (label_columns, item, annotator)
                read = partial(terminal.read, text=text, encoding=encoding, several=several)
                kinds = getattr(saved, "kinds", {})
                table, group = _read(read, data, label, id_, groups, weights, drop, image_size, kinds)
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
                        progress=terminal.progress(as_json),
                        # Some models deal the folds themselves.
                        on_fold=lambda k: tell(judging if k == 0 else f"{judging}, fold {k + 1} of {folds}", k / folds),
                    )
                if not errors.candidates:
                    tell("estimating the accuracy")
                through = ", through T" if judge and speaks_of_noisy_labels(saved) else ""
                named = f"model {judge}{through}" if judge else GIVEN if probabilities else None
                asked: dict[str, Any] = {"folds": folds, "random_state": seed, "judge": named}
                compared = compare_classifiers(errors, table, model=model, network=network, **asked)
            tell(f"writing {out}")
            title = terminal.called(data, whole=False)
            further: dict[str, Any] = {"id": id_, "exports": export or (), "totals": totals, "raw": raw}
            summary = write_audit(errors, table, out, title=title, compared=compared, **further)
    if as_json:
        terminal.print_json({"out": str(out), **summary})
        return
    console = Console()
    totals, n_listed = totals or Totals.of(errors), len(errors.suspects)
    rate = totals.total / totals.n_rows if totals.suspected is None else float("nan")
    terminal.print_noise(console, noise_of(errors, table, totals), totals.noise_rates, rate)
    if errors.candidates:
        terminal.print_candidates(console, len(errors.given), errors.candidates)
    else:
        terminal.print_accuracies(console, len(errors.given), compared)
    if n_listed:
        surest = terminal.plain_table("name", "given", "suggested", right=("P(wrong)",))
        for i in errors.suspects[:SHOWN]:
            names = (table.names[i], errors.given[i], errors.suggested[i])
            surest.add_row(*map(terminal.cell, names), f"{errors.scores[i]:.3f}")
        shown = "" if n_listed <= SHOWN else f"{SHOWN} "
        console.print(f"\nThe {shown}surest of {totals.n_suspects:,} suspects", highlight=False)
        console.print(surest)
    terminal.print_notes(errors.notes)
    terminal.print_findings(table.findings)
    terminal.print_unused_of(table, trained)
    typer.echo(explain_interval(totals))
    typer.echo(explain_counts(totals))
    if n_listed < totals.n_suspects:
        typer.echo(f"The {n_listed:,} surest are listed; --suspects keeps more.")
    typer.echo(f"Page: {terminal.shown(out / 'index.html')}")


def _exclusive(given: dict[str, Any]) -> None:
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1 and {"--probabilities", "--judge"} & set(named):
        raise ValueError(f"{' and '.join(named)} exclude each other; give one of them")


def _check_out_of_core(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            raise typer.BadParameter("it has no meaning with --out-of-core; leave it out", param_hint=name)


def _read(
    read: Any,
    data: list[Path],
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
    drop = [name for name in drop or () if name not in (id_, groups)]  # these are no features anyway
    table, group = read(data, label, weights, drop, image_size, kinds or None), None
    if groups is not None and groups != id_:
        table, group = split_column(table, groups, "--groups")
    return (table if id_ is None else named_by(table, id_)), group


def _audited(table: Any, probabilities: Path | None, **given: Any) -> Any:
    from unflip.commands import audit_table, read_probabilities

    proba = None if probabilities is None else read_probabilities(probabilities, table)
    return audit_table(table, pred_probs=proba, **given)
