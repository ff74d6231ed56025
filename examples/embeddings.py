"""Embeddings from any extractor: audit their labels, train on them, and hand them to the command line.

    python examples/embeddings.py             # works in a temporary folder
    python examples/embeddings.py kept        # keeps kept/embeddings.npz and kept/model

An audit and a model need one row of numbers per sample, and do not ask where they come from: a CLIP model for images,
sentence-transformers for texts, the last layer of your own network. Here a random projection of pixels stands in.
Needs safetensors, to save the model: pip install safetensors
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from unflip import ForwardLogisticClassifier, asymmetric, corrupt, find_label_errors, load

FLIPS = {7: (1, 0.3), 2: (7, 0.3), 5: (6, 0.3), 6: (5, 0.3), 3: (8, 0.3)}  # digits that look alike


def embed(images: np.ndarray) -> np.ndarray:
    """Return one row per image. Replace this by your extractor, such as model.encode(texts)."""
    random = np.random.default_rng(0)
    pixels = images.reshape(len(images), -1) / 16
    return np.maximum(pixels @ random.normal(size=(64, 256)) / 8 + random.normal(size=256) / 4, 0).astype(np.float32)


def main(folder: Path) -> None:
    digits = load_digits()
    X, clean = embed(digits.images), digits.target
    noisy = corrupt(clean, asymmetric(10, FLIPS), random_state=0)
    train = np.arange(len(X)) < 1200

    model = ForwardLogisticClassifier().fit(X[train], noisy[train])  # estimates T as well
    errors = find_label_errors(X[train], noisy[train], model, random_state=0)
    wrong = (noisy != clean)[train]
    print(f"{wrong.sum()} labels are wrong; {len(errors.suspects)} have a better suggestion,", end=" ")
    print(f"of which {wrong[errors.suspects].mean():.1%} are wrong")

    model.save(folder / "model")
    predicted = load(folder / "model").predict(X[~train])
    print(f"accuracy on clean labels {(predicted == clean[~train]).mean():.3f}")

    np.savez(folder / "embeddings.npz", X=X[train], y=noisy[train])
    print(f"on the command line: unflip audit {folder / 'embeddings.npz'} --out audit")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
