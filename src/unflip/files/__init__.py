"""Tables in, models out and in.

``read_table(path)`` reads a CSV, Parquet or NPZ file or a folder of images; :class:`Preprocessor` makes numbers of a
table; ``model.save(folder)`` and ``load(folder)`` write and read models without pickle; ``card(folder)`` describes one.
"""

from unflip.files.card import card
from unflip.files.models import CLASSES, FORMAT, Savable, load
from unflip.files.preprocessing import Preprocessor
from unflip.files.tables import Table, read_table

__all__ = ["CLASSES", "FORMAT", "Preprocessor", "Savable", "Table", "card", "load", "read_table"]
