"""DATA: readers of the official layouts, and one catalogue with the sizes, license and source of each data set.

``load_dataset(name)`` reads from the data directory (``UNFLIP_DATA``, or a folder in the user's cache) and never loads
a pickle; ``fetch(name)`` downloads the official files; ``catalogue()`` lists all data sets.
"""

from unflip.datasets.catalogue import catalogue, load_dataset
from unflip.datasets.download import fetch
from unflip.datasets.entry import Dataset, Download, Entry, data_directory

__all__ = ["Dataset", "Download", "Entry", "catalogue", "data_directory", "fetch", "load_dataset"]
