"""The deep methods, one a file: ``forward(x, y, epoch)`` is the loss, ``predict(x)`` the clean logits.

A new method is a file with a subclass of ``Method``, and one line in ``METHODS``.
"""

import inspect
from typing import Any

from numpy.typing import ArrayLike

from unflip.deep.methods._base import Method
from unflip.deep.methods.coteaching import CoTeaching
from unflip.deep.methods.coteaching_plus import CoTeachingPlus
from unflip.deep.methods.cross_entropy import CrossEntropy
from unflip.deep.methods.forward import Forward
from unflip.deep.methods.gce import GCE
from unflip.deep.methods.jocor import JoCoR
from unflip.deep.methods.mcldce import MCLDCE
from unflip.deep.methods.sigua import SIGUA
from unflip.deep.methods.volminnet import VolMinNetMethod
from unflip.deep.networks import NetworkFactory

METHODS: dict[str, type[Method]] = {
    "ce": CrossEntropy,
    "gce": GCE,
    "coteaching": CoTeaching,
    "coteaching+": CoTeachingPlus,
    "jocor": JoCoR,
    "sigua": SIGUA,
    "mcldce": MCLDCE,
    "forward": Forward,
    "volminnet": VolMinNetMethod,
}

__all__ = [
    "GCE",
    "MCLDCE",
    "METHODS",
    "SIGUA",
    "CoTeaching",
    "CoTeachingPlus",
    "CrossEntropy",
    "Forward",
    "JoCoR",
    "Method",
    "VolMinNetMethod",
    "find_method",
    "make_method",
]


def find_method(name: str, **settings: Any) -> type[Method]:
    """Return the class of a method by its name; an unknown name or setting is refused with a list of the known ones."""
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {name!r}")
    parameters = inspect.signature(METHODS[name]).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ValueError(f"method {name!r} has no setting {', '.join(unknown)}; it has {', '.join(known) or 'none'}")
    return METHODS[name]


def make_method(
    name: str,
    network_factory: NetworkFactory,
    n_classes: int,
    transition: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    **settings: Any,
) -> Method:
    """Return a method by its name, with fresh networks.

    Parameters
    ----------
    name : str
        A key of ``METHODS``.
    network_factory : callable
        Makes a fresh network at each call, as :func:`unflip.deep.make_network` returns it.
    n_classes : int
    transition : array-like of shape (n_classes, n_classes), default=None
        T[i, j] = P(noisy = j | clean = i), for the methods that need it.
    prior : array-like of shape (n_classes,), default=None
        The clean class prior; None is the uniform one.
    **settings
        Of the method.

    Examples
    --------
    >>> from unflip.deep import make_network
    >>> method = make_method("jocor", make_network("mlp", 20, 3), 3, forget_rate=0.2, co_lambda=0.5)
    >>> method.name, method.n_networks
    ('jocor', 2)
    """
    return find_method(name, **settings)(network_factory, n_classes, transition, prior, **settings)
