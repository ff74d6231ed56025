"""Your own table, from the file to the answer: what the commands ``unflip fit``, ``audit`` and so on call.

::

    table = read_table("people.csv", label="job")
    fit_table(table).model.save("model")         T, a classifier that uses it, and its estimated clean accuracy
    write_audit(audit_table(table), table, "audit", title="people.csv")

    fit_out_of_core("people/*.parquet", "job")   the same from files that do not fit into memory
"""

from unflip.commands.apply import apply_corrections
from unflip.commands.audit import (
    audit_table,
    compare_classifiers,
    judge_table,
    named_by,
    read_probabilities,
    write_audit,
)
from unflip.commands.audit_out_of_core import audit_out_of_core
from unflip.commands.consensus import annotated_table, write_consensus
from unflip.commands.export import export_model
from unflip.commands.fit import FittedTable, Noise, fit_table, write_fit_page
from unflip.commands.out_of_core import fit_out_of_core
from unflip.commands.predict import predict_files, predict_table, read_for, write_predictions
from unflip.commands.transition import find_noise, read_transition, write_transition

__all__ = [
    "FittedTable",
    "Noise",
    "annotated_table",
    "apply_corrections",
    "audit_out_of_core",
    "audit_table",
    "compare_classifiers",
    "export_model",
    "find_noise",
    "fit_out_of_core",
    "fit_table",
    "judge_table",
    "named_by",
    "predict_files",
    "predict_table",
    "read_for",
    "read_probabilities",
    "read_transition",
    "write_audit",
    "write_consensus",
    "write_fit_page",
    "write_predictions",
    "write_transition",
]
