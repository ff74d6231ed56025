"""AUDIT: which labels are probably wrong, and what they should be."""

from unflip.audit.errors import LabelErrors
from unflip.audit.find import find_label_errors

__all__ = ["LabelErrors", "find_label_errors"]
