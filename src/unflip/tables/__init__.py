"""A person's own data: files and folders in, numbers and labels out.

``read_table(path)`` reads a CSV, Parquet or NPZ file or a folder of images; :class:`Preprocessor` turns a table into
numbers; :class:`TableClassifier` does both steps and is saved as one.
"""

from unflip.tables.classifier import TableClassifier
from unflip.tables.preprocessing import Preprocessor
from unflip.tables.table import Table, read_table

__all__ = ["Preprocessor", "Table", "TableClassifier", "read_table"]
