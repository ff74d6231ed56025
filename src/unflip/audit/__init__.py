"""AUDIT: which labels are probably wrong, and what they should be."""

from unflip.audit.find import LabelErrors, find_label_errors

__all__ = ["LabelErrors", "find_label_errors"]
