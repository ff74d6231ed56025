"""The default models with fewer trees, for tests of what is done with their predictions."""

from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from unflip.transition import stacked

DEFAULT_MODELS = stacked.default_models


def light_models(X, n_classes):
    """Return the default models: 30 trees in a forest, 10 rounds and 32 bins of boosting."""
    models = DEFAULT_MODELS(X, n_classes)
    for _, model in models:
        last = model.steps[-1][1] if hasattr(model, "steps") else model
        if isinstance(last, ExtraTreesClassifier):
            last.set_params(n_estimators=30)
        elif isinstance(last, HistGradientBoostingClassifier):
            last.set_params(max_iter=10, max_bins=32)
    return models


def use(monkeypatch):
    """Let every fit of this process use them."""
    for module in ("corrected", "transition.stacked"):
        monkeypatch.setattr(f"unflip.{module}.default_models", light_models)
