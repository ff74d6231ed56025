"""Deep models that learn from noisy labels: losses, networks and methods on PyTorch (``pip install unflip[deep]``)."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("unflip.deep needs PyTorch: pip install 'unflip[deep]'") from error

from unflip.deep.augment import make_augment
from unflip.deep.classifier import NoisyLabelClassifier
from unflip.deep.losses import (
    BackwardLoss,
    ForwardLoss,
    GCELoss,
    MAELoss,
    MCLDCELoss,
    ProperLoss,
    TruncatedGCELoss,
    UnhingedLoss,
)
from unflip.deep.methods import Method, find_method, make_method
from unflip.deep.networks import CNN6, MLP, LeNet, make_network
from unflip.deep.trainer import Trainer

__all__ = [
    "CNN6",
    "MLP",
    "BackwardLoss",
    "ForwardLoss",
    "GCELoss",
    "LeNet",
    "MAELoss",
    "MCLDCELoss",
    "Method",
    "NoisyLabelClassifier",
    "ProperLoss",
    "Trainer",
    "TruncatedGCELoss",
    "UnhingedLoss",
    "find_method",
    "make_augment",
    "make_method",
    "make_network",
]
