"""scikit-learn's checks of an estimator; those that nearly repeat another one are slow tests."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks


def nearly_repeats(check):
    """Tell whether another check differs only in the class of sparse matrices, or in the precision of a memory map."""
    name, options = check.func.__name__, check.keywords
    return name == "check_estimator_sparse_matrix" or (
        name == "check_classifiers_train" and "readonly_memmap" in options and "X_dtype" not in options
    )


def parametrize(estimators, left_out=(), **options):
    """As ``parametrize_with_checks``, without the checks of some names."""
    mark = parametrize_with_checks(estimators, **options)
    names, cases = mark.args
    found = []
    for case in cases:
        case = case if hasattr(case, "marks") else pytest.param(*case)
        if case.values[1].func.__name__ in left_out:
            continue
        marks = [*case.marks, *([pytest.mark.slow] if nearly_repeats(case.values[1]) else [])]
        found.append(pytest.param(*case.values, marks=marks))
    return pytest.mark.parametrize(names, found, **mark.kwargs)
