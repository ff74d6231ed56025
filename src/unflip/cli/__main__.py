"""``python -m unflip.cli``, the same as ``unflip``."""

from unflip.cli import app

app()
