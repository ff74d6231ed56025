"""Every method, estimator of T and saved class, once. All other lists derive from this one.

The public names of ``unflip``, ``unflip fit --method``, the methods of ``NoisyLabelClassifier``, what ``unflip.load``
may build, the kinds that an experiment file may name, the methods whose predictions the audit takes as clean, what the
model card says about probabilities, and the notes below a report's table all come from ``ENTRIES``. A new method is a
new file and one new line here.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

Family = Literal["linear", "deep", "transition", "any", "table", "arrays"]
TORCH = find_spec("torch") is not None


class Entry(NamedTuple):
    """One line of the registry.

    Attributes
    ----------
    name : str or None
        The name that users type: in ``--method``, ``NoisyLabelClassifier(method=...)``,
        ``estimate_transition(method=...)`` and experiment files. If None, the class is not offered by name.
    module, cls : str
        The class and the module it is defined in.
    family : {"linear", "deep", "transition", "any", "table", "arrays"}
        A linear classifier, a method that trains networks, an estimator of T, a classifier that wraps any model, a
        class that handles tables, or the form in which another library's fitted model is saved.
    takes_transition : bool
        Whether it uses T: to correct its loss, or to know how many labels are wrong.
    learns_transition : bool
        Whether it learns T as it trains.
    robust : bool
        Whether it withstands noise without T, so that its predictions are already of the clean label.
    biased : bool
        Whether its probabilities serve only to choose a class, although T corrects its loss.
    networks : int
        How many networks it trains.
    saved : bool
        Whether it has ``save``, so that :func:`unflip.load` may build it.
    own_scale : bool
        Whether it scales the features and estimates T itself, so that it takes the numbers of a table as they are.
    """

    name: str | None
    module: str
    cls: str
    family: Family
    takes_transition: bool = False
    learns_transition: bool = False
    robust: bool = False
    biased: bool = False
    networks: int = 0
    saved: bool = False
    own_scale: bool = False

    @property
    def needs_torch(self) -> bool:
        return self.networks > 0 or self.module.startswith("deep.")

    def load(self) -> Any:
        """Import and return the class."""
        if self.needs_torch:
            import_module("unflip.deep")  # first, because it says how to install PyTorch
        return getattr(import_module(f"unflip.{self.module}"), self.cls)


ENTRIES = [
    Entry("mcldce", "linear.mcldce", "MCLDCEClassifierCV", "linear", takes_transition=True, saved=True),
    Entry(None, "linear.mcldce", "MCLDCEClassifier", "linear", takes_transition=True, saved=True),
    Entry(
        "forward",
        "linear.forward_logistic",
        "ForwardLogisticClassifier",
        "linear",
        takes_transition=True,
        saved=True,
        own_scale=True,
    ),
    Entry("ule", "linear.ule", "ULEClassifier", "linear", takes_transition=True, biased=True, saved=True),
    Entry("musgd", "linear.musgd", "MuSGDClassifier", "linear", takes_transition=True, biased=True, saved=True),
    Entry(
        "rank-pruning",
        "linear.rank_pruning",
        "RankPruningClassifier",
        "linear",
        takes_transition=True,
        robust=True,
        saved=True,
    ),
    Entry("filter", "linear.filter", "FilterClassifier", "linear", robust=True, saved=True),
    Entry("lnsi", "linear.lnsi", "LNSIClassifier", "linear", saved=True),
    Entry("scd", "linear.scd", "SCDClassifier", "linear", saved=True),
    Entry("lics", "linear.lics", "LICSClassifier", "linear", takes_transition=True, biased=True, saved=True),
    Entry("cege", "linear.cege", "CEGEClassifier", "linear", takes_transition=True, biased=True, saved=True),
    Entry("ce", "deep.methods.cross_entropy", "CrossEntropy", "deep", networks=1),
    Entry("gce", "deep.methods.gce", "GCE", "deep", robust=True, networks=1),
    Entry(
        "coteaching", "deep.methods.coteaching", "CoTeaching", "deep", takes_transition=True, robust=True, networks=2
    ),
    Entry(
        "coteaching+",
        "deep.methods.coteaching_plus",
        "CoTeachingPlus",
        "deep",
        takes_transition=True,
        robust=True,
        networks=2,
    ),
    Entry("jocor", "deep.methods.jocor", "JoCoR", "deep", takes_transition=True, robust=True, networks=2),
    Entry("sigua", "deep.methods.sigua", "SIGUA", "deep", takes_transition=True, robust=True, networks=1),
    Entry("decoupling", "deep.methods.decoupling", "Decoupling", "deep", robust=True, networks=2),
    Entry("mentornet", "deep.methods.mentornet", "MentorNet", "deep", robust=True, networks=1),
    Entry(
        "joint-optimization", "deep.methods.joint_optimization", "JointOptimization", "deep", robust=True, networks=1
    ),
    Entry("selfie", "deep.methods.selfie", "SELFIE", "deep", takes_transition=True, robust=True, networks=1),
    Entry("dividemix", "deep.methods.dividemix", "DivideMix", "deep", robust=True, networks=2),
    Entry("mcldce", "deep.methods.mcldce", "MCLDCE", "deep", takes_transition=True, networks=1),
    Entry("forward", "deep.methods.forward", "Forward", "deep", takes_transition=True, networks=1),
    Entry(
        "discounted-forward",
        "deep.methods.discounted_forward",
        "DiscountedForward",
        "deep",
        takes_transition=True,
        biased=True,
        networks=1,
    ),
    Entry("proper", "deep.methods.proper", "Proper", "deep", takes_transition=True, networks=1),
    Entry("volminnet", "transition.volminnet", "VolMinNetMethod", "deep", learns_transition=True, networks=1),
    Entry(
        "t-revision",
        "deep.methods.t_revision",
        "TRevision",
        "deep",
        takes_transition=True,
        learns_transition=True,
        networks=1,
    ),
    Entry(
        "noise-adaptation",
        "deep.methods.noise_adaptation",
        "NoiseAdaptation",
        "deep",
        learns_transition=True,
        networks=1,
    ),
    Entry("bootstrapping", "deep.methods.bootstrapping", "Bootstrapping", "deep", networks=1),
    Entry("label-smoothing", "deep.methods.label_smoothing", "LabelSmoothing", "deep", networks=1),
    Entry("cores", "deep.methods.cores", "CORES", "deep", robust=True, networks=1),
    Entry("elr", "deep.methods.elr", "ELR", "deep", robust=True, networks=1),
    Entry("mixup", "deep.methods.mixup", "Mixup", "deep", networks=1),
    Entry("volmin", "transition.volmin", "VolMin", "transition", takes_transition=True, saved=True, own_scale=True),
    Entry("stacked-em", "transition.stacked", "StackedEM", "transition", takes_transition=True, own_scale=True),
    Entry("ridge-em", "transition.ridge", "RidgeEM", "transition", own_scale=True),
    Entry("anchor", "transition.anchor_points", "AnchorPoints", "transition"),
    Entry("dual-t", "transition.dual_t", "DualT", "transition"),
    Entry("hoc", "transition.hoc", "HOC", "transition"),
    Entry("selective", "transition.selective", "Selective", "transition"),
    Entry("volminnet", "transition.volminnet", "VolMinNet", "transition", networks=1),
    Entry("crossfit-em", "transition.crossfit", "CrossFitEM", "transition", networks=1),
    Entry(None, "deep.classifier", "NoisyLabelClassifier", "any", takes_transition=True, saved=True),
    Entry(None, "corrected", "CorrectedClassifier", "any", takes_transition=True, saved=True, own_scale=True),
    Entry(None, "tables.classifier", "TableClassifier", "table", saved=True),
    Entry(None, "tables.preprocessing", "Preprocessor", "table", saved=True),
    Entry(None, "models.trees", "TreeEnsemble", "arrays", saved=True),
    Entry(None, "models.arrays", "LinearScores", "arrays", saved=True),
    Entry(None, "models.arrays", "Scaled", "arrays", saved=True),
    Entry(None, "models.arrays", "Projected", "arrays", saved=True),
    Entry(None, "models.arrays", "Radial", "arrays", saved=True),
    Entry(None, "models.arrays", "Blend", "arrays", saved=True),
]


def names(family: Family) -> list[str]:
    """Return the names that users type for a family, in the order of the registry."""
    return [entry.name for entry in ENTRIES if entry.family == family and entry.name is not None]


def find(name: str, family: Family) -> Entry:
    """Return the entry that a user's word names.

    Examples
    --------
    >>> find("gce", "deep").cls
    'GCE'
    """
    for entry in ENTRIES:
        if (entry.name, entry.family) == (name, family):
            return entry
    raise ValueError(f"unknown method {name!r}; choose one of {', '.join(names(family))}")


def find_class(cls: str) -> Entry | None:
    """Return the entry of a class by the class's name, or None if it is not registered."""
    return next((entry for entry in ENTRIES if entry.cls == cls), None)


def entry_of(model: Any) -> Entry | None:
    """Return the entry of a model: that of its method if it trains networks; None if its class is not registered."""
    method = getattr(model, "method", None)
    entry = find_class(type(model).__name__)
    return find(method, "deep") if entry is not None and method in names("deep") else entry


def saved_classes() -> list[str]:
    """Return the names of the classes that :func:`unflip.load` may build."""
    return [entry.cls for entry in ENTRIES if entry.saved]


def lazy_names(
    namespace: dict[str, Any], *families: Family
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return the classes of some families, and ``__getattr__`` and ``__dir__`` for the package that offers them.

    The classes load on first use, so that importing the package stays fast and needs no PyTorch. Without PyTorch, those
    that need it are left out of the list, so that ``import *`` works; who asks for one is told what to install.
    ``namespace`` is the package's ``globals()``.
    """
    entries = {entry.cls: entry for entry in ENTRIES if entry.family in families}
    listed = [name for name, entry in entries.items() if TORCH or not entry.needs_torch]

    def get(name: str) -> Any:
        if name not in entries:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        namespace[name] = entries[name].load()
        return namespace[name]

    return listed, get, lambda: sorted({*namespace, *listed})


def make(cls: str, **parameters: Any) -> Any:
    """Return a new object of a registered class.

    A part of the package may need a class from a layer above it as a default: a network's classifier needs an estimator
    of T. It names the class here instead of importing it.
    """
    entry = find_class(cls)
    if entry is None:
        raise ValueError(f"{cls} is not in the registry")
    return entry.load()(**parameters)
