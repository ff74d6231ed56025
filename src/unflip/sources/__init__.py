"""DATA of any size: blocks of rows from arrays, files, generators and Dask, and sums over them."""

from unflip.sources.block import Block, BlockError
from unflip.sources.classes import find_classes
from unflip.sources.open import open_source
from unflip.sources.reduce import reduce_blocks
from unflip.sources.source import Part, Source

__all__ = ["Block", "BlockError", "Part", "Source", "find_classes", "open_source", "reduce_blocks"]
