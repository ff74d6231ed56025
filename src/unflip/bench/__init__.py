"""Experiments as data: an experiment file (spec) is a grid of cells, and each cell that was run has a record.

``spec`` reads the file into an ``experiment``, whose ``cells`` are frozen values; ``trial`` runs one of them,
``record`` keeps its result together with what produced it, ``store`` is the folder of records, and ``schedule`` runs
many cells on ``workers`` while ``progress`` shows how far they are.
"""
