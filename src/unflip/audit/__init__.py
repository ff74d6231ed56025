"""AUDIT: which labels are probably wrong, and what they should be."""

from unflip.audit.find import LabelAuditor, LabelErrors, find_label_errors

__all__ = ["LabelAuditor", "LabelErrors", "find_label_errors"]
