"""The deep methods, one per file: ``forward(x, y, epoch)`` is the loss, ``predict(x)`` returns the clean logits.

A new method is a file with a subclass of ``Method``, and one line in ``unflip/registry.py``; its class is then a name
of this package as well, such as ``unflip.deep.methods.GCE``.
"""

import inspect
from typing import Any

from numpy.typing import ArrayLike

from unflip import registry
from unflip.deep.methods._base import Method
from unflip.deep.networks import NetworkFactory

_METHODS, __getattr__, __dir__ = registry.lazy_names(globals(), "deep")

__all__ = ["Method", "find_method", "make_method", *_METHODS]


def find_method(name: str, **settings: Any) -> type[Method]:
    """Return the class of a method by its name; an unknown name or setting is refused with a list of the known ones."""
    if not isinstance(name, str):
        raise ValueError(
            f"method must be a name, such as 'mcldce'; got an object of type {type(name).__name__}. Pass a network by "
            "the name of its parameter, network=..."
        )
    method: type[Method] = registry.find(name, "deep").load()
    parameters = inspect.signature(method).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ValueError(f"method {name!r} has no setting {', '.join(unknown)}; it has {', '.join(known) or 'none'}")
    return method


def make_method(
    name: str,
    network_factory: NetworkFactory,
    n_classes: int,
    transition: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    **settings: Any,
) -> Method:
    """Return the method with this name, one of ``unflip.registry.names("deep")``, with fresh networks.

    The other parameters are those of :class:`Method`; :func:`unflip.deep.make_network` makes factories.

    Examples
    --------
    >>> from unflip.deep import make_network
    >>> method = make_method("jocor", make_network("mlp", 20, 3), 3, forget_rate=0.2, co_lambda=0.5)
    >>> method.name, method.n_networks
    ('jocor', 2)
    """
    return find_method(name, **settings)(network_factory, n_classes, transition, prior, **settings)
