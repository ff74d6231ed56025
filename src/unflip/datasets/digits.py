"""The embedded dataset: scikit-learn's 8x8 digits."""

import numpy as np

from unflip.datasets.dataset import Arrays


def read_digits() -> Arrays:
    """Read the digits with a fixed split, 60 % for training; images become (n, 1, 8, 8)."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    images = (X.reshape(-1, 1, 8, 8) / 16).astype(np.float32)  # grey levels are 0 .. 16
    x_train, x_test, y_train, y_test = train_test_split(
        images, y.astype(np.int64), test_size=0.4, stratify=y, random_state=0
    )
    return Arrays(x_train, y_train, x_test, y_test)
