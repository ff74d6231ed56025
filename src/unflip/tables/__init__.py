"""A person's own data: files and folders in, numbers and labels out, whole or in blocks of rows.

``read_table(path)`` reads a CSV, Parquet or NPZ file or a folder of images; :class:`Preprocessor` turns a table into
numbers; :class:`TableClassifier` does both steps and is saved as one. ``open_source`` gives blocks of rows of data that
need not fit into memory, and ``reduce_blocks`` sums over them.
"""

from unflip.tables.blocks import Block, BlockError, Part, Source, reduce_blocks
from unflip.tables.checks import Finding, check_table
from unflip.tables.classifier import TableClassifier
from unflip.tables.preprocessing import Preprocessor
from unflip.tables.read import Table, read_table
from unflip.tables.sources import find_classes, open_source

__all__ = [
    "Block",
    "BlockError",
    "Finding",
    "Part",
    "Preprocessor",
    "Source",
    "Table",
    "TableClassifier",
    "check_table",
    "find_classes",
    "open_source",
    "read_table",
    "reduce_blocks",
]
