"""``unflip audit``: which labels of a table are probably wrong."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unflip.cli import options, terminal

SHOWN = 10  # suspects on the terminal


def audit(
    data: options.Data,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the lists and the page.")],
    label: options.Label = None,
    model: options.ModelOption = None,
    network: options.NetworkOption = None,
    transition: options.Transition = "auto",
    folds: Annotated[int, typer.Option(min=2, help="Each label is judged by a model trained on the other folds.")] = 5,
    weights: options.Weights = None,
    drop: options.Drop = None,
    encoding: options.Encoding = None,
    text: options.TextOption = options.Text.tfidf,
    image_size: options.ImageSize = None,
    epochs: options.Epochs = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Find the labels that are probably wrong, and suggest better ones.

    FOLDER gets suspects.csv (the labels with a better suggestion, surest first),
    labels.csv (every label with its probability of being wrong), summary.json,
    and index.html, a page to browse, tick corrections on and export them from.

    Example: unflip audit people.csv --label job --out audit
    """
    with terminal.one_sentence():
        from unflip.commands import Noise, audit_table, compare_classifiers, write_audit
        from unflip.commands.audit import FILES
        from unflip.commands.fit import check_network, resolve_model
        from unflip.commands.folders import check_folder

        method, trained = resolve_model(model, None, network)
        check_network(trained, epochs)
        check_folder(out, FILES)
        with terminal.steps(trained) as tell:
            tell(f"reading {terminal.called(data)}")
            table = terminal.read(data, label, weights, drop, image_size, text=text, encoding=encoding)
            judging = f"judging {len(table.y):,} labels"
            whole = method in ("auto", "trees", "forest")  # CorrectedClassifier, which deals the folds itself
            errors = audit_table(
                table,
                model=model,
                network=network,
                transition=terminal.read_matrix(transition, table, trained, seed),
                folds=folds,
                epochs=epochs,
                random_state=seed,
                progress=False if as_json else "auto",
                on_fold=lambda k: tell(judging) if whole else tell(f"{judging}, fold {k + 1} of {folds}", k / folds),
            )
            if not errors.candidates:
                tell("comparing with a learner that trusts the labels")
            compared = compare_classifiers(errors, table, model=model, network=network, folds=folds, random_state=seed)
            tell(f"writing {out}")
            title = terminal.called(data, whole=False)
            summary = write_audit(errors, table, out, title=title, compared=compared)
    if as_json:
        terminal.print_json({"out": str(out), **summary})
        return
    console = Console()
    terminal.print_noise(
        console, Noise.of(errors.given, errors.transition, table.sample_weight), errors.noise_rates, errors.rate
    )
    if errors.candidates:
        terminal.print_candidates(console, len(errors.given), errors.candidates)
    else:
        terminal.print_accuracies(console, len(errors.given), compared)
    n, n_suspects = len(errors.scores), len(errors.suspects)
    if n_suspects:
        surest = terminal.plain_table("name", "given", "suggested", right=("P(wrong)",))
        for i in errors.suspects[:SHOWN]:
            names = (table.names[i], errors.given[i], errors.suggested[i])
            surest.add_row(*map(terminal.cell, names), f"{errors.scores[i]:.3f}")
        console.print(f"\nThe surest of {n_suspects:,} suspects", highlight=False)
        console.print(surest)
    terminal.print_notes(errors.notes)
    terminal.print_findings(table.findings)
    terminal.print_unused_of(table, trained)
    typer.echo(f"{n:,} labels: about {errors.total:,.0f} are wrong, {n_suspects:,} have a better suggestion.")
    typer.echo(f"Page: {terminal.shown(out / 'index.html')}")
