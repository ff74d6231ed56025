"""A small page."""

import dataclasses

import numpy as np

from unflip.page.data import ComparedClassifier, Page, Suspect


def make(classes=("cat", "dog", "eel"), **changes):
    c = len(classes)
    T = np.full((c, c), 0.3 / (c - 1))
    np.fill_diagonal(T, 0.7)
    T[0] = 0
    T[0, :2] = 0.6, 0.4
    clean = np.arange(c) + 100.0
    page = Page(
        title="Animals",
        summary=[("data", "animals.csv")],
        classes=classes,
        transition=T,
        noisy_counts=np.rint(clean @ T),
        clean_counts=clean,
        noise_rates=1 - np.diag(T),
        curves={"loss": [2.0, 1.0, 0.5]},
        classifiers=[
            ComparedClassifier("MC-LDCE", 0.9, 0.88, 0.92, 0.6, 0.91, "T estimated"),
            ComparedClassifier("logistic regression", 0.7, 0.66, 0.74),
        ],
        suspects=[Suspect("1.png", classes[0], classes[1], 0.9), Suspect("2.png", classes[1], classes[0], 0.8)],
        n_samples=1000,
        n_suspects_total=7,
        made_with="unflip 1.2.3",
    )
    return dataclasses.replace(page, **changes)
