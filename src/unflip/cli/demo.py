"""``unflip demo``: the whole package at work on scikit-learn's digits."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from unflip.cli.options import Json, Seed
from unflip.cli.terminal import estimate, one_sentence, print_json, print_noise, shown, steps


def demo(
    rate: Annotated[float, typer.Option(min=0, max=0.45, help="Share of labels that flip to the next class.")] = 0.4,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("demo-report"),
    as_json: Json = False,
) -> None:
    """Flip 40 % of the labels of scikit-learn's digits, train on them anyway, and find the wrong ones.

    Example: unflip demo --rate 0.3
    """
    with one_sentence():
        # scikit-learn takes a second to import; --help should not wait for it
        from unflip.commands import Noise
        from unflip.commands.demo import FILES, run_demo, write_demo_page
        from unflip.commands.folders import check_folder

        check_folder(out, FILES)
        with steps() as tell:
            tell("digits: estimating T, comparing classifiers, auditing the labels")
            result = run_demo(rate, seed)
            page = write_demo_page(result, out)
    if as_json:
        print_json({"page": str(page), **result.as_json()})
        return
    console = Console()
    console.print(
        f"Digits: {result.n_train:,} training images, {result.noise_rate:.1%} of their labels wrong; "
        f"{result.n_test:,} test images.\n"
    )
    print_noise(console, Noise.of(result.errors.given, result.transition))
    table = Table("classifier", title=f"Pair noise {rate:.0%}: accuracy on clean test labels, true and estimated")
    for title in ("T error", "accuracy", "estimate [95 %]"):
        table.add_column(title, justify="right")
    for row in result.rows:
        error = "" if row.transition_error is None else f"{row.transition_error:.3f}"
        table.add_row(row.classifier, error, f"{row.accuracy:.1%}", estimate(row.estimate))
    console.print(table)
    console.print(
        "T error: sum |T^ - T| / classes, where T^ is estimated from the noisy labels.\n"
        "Estimate: the accuracy computed from T^ and noisy test labels, without any clean label.\n"
    )
    console.print(
        f"Audit: about {result.errors.rate:.1%} of the labels are wrong; {len(result.errors.suspects):,} have a better "
        f"suggestion. {result.precision:.1%} of these are indeed wrong, which is {result.recall:.1%} of all wrong "
        f"labels. Accepting every suggestion leaves {result.noise_rate_left:.1%} wrong."
    )
    typer.echo(f"Page: {shown(page)}")
