"""DATA: readers of the official layouts, and one catalogue: name -> arrays, sizes, licence, source.

``load_dataset(name)`` reads what is in the data directory (``UNFLIP_DATA``, or a folder in the user's cache) and never
loads a pickle; ``fetch(name)`` downloads the official files; ``catalogue()`` lists what there is.
"""

from unflip.datasets.dataset import Dataset
from unflip.datasets.download import fetch
from unflip.datasets.entry import Download, Entry, data_directory
from unflip.datasets.load import catalogue, load_dataset

__all__ = ["Dataset", "Download", "Entry", "catalogue", "data_directory", "fetch", "load_dataset"]
