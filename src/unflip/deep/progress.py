"""Progress bars on a terminal."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def is_shown(progress: bool | str) -> bool:
    """Return whether a bar is shown; "auto" shows it on a terminal only."""
    return sys.stderr.isatty() if progress == "auto" else bool(progress)


class TrainingBar(Progress):
    """A bar over all steps of a training run; ``steps`` per epoch is None if they are not known in advance."""

    def __init__(self, shown: bool, name: str, epochs: int, steps: int | None) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        super().__init__(*columns, console=Console(stderr=True), refresh_per_second=5, disable=not shown)
        self.name, self.epochs, self.steps = name, epochs, steps
        self.training = self.add_task(name, total=None if steps is None else epochs * steps)

    def step(self) -> None:
        if not self.disable:
            self.advance(self.training)

    def epoch(self, record: dict[str, Any]) -> None:
        """Show the loss, and the accuracy if there is one, of an epoch that has ended."""
        accuracy = record.get("accuracy")
        score = f", accuracy {accuracy:.4f}" if isinstance(accuracy, (int, float)) else ""
        done = record["epoch"] + 1
        text = f"{self.name} epoch {done}/{self.epochs}: loss {record['loss']:.4f}{score}"
        completed = None if self.steps is None else done * self.steps  # a resumed run did not do all of them itself
        self.update(self.training, description=text, completed=completed)
