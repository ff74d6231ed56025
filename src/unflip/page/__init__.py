"""The HTML page of an audit or a fit: one self-contained file."""

from unflip.page.crowd import write_crowd_page
from unflip.page.data import ComparedClassifier, Example, Page, Suspect
from unflip.page.write import write_page

__all__ = ["ComparedClassifier", "Example", "Page", "Suspect", "write_crowd_page", "write_page"]
