"""What the values of an experiment file must be: a rule for each key of each table, and the check."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from unflip.bench.experiment import one_of

Rule = tuple[str, Callable[[Any], bool]]  # what a value must be, in words, and whether it is


def whole(least: int) -> Rule:
    return f"a whole number, at least {least}", lambda value: type(value) is int and value >= least


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)  # bool is an int, but no number


def all_different(values: Any, each: Callable[[Any], bool]) -> bool:
    """Whether it is a list of one or more, of different values."""
    return isinstance(values, list) and all(map(each, values)) and len(set(values)) == len(values) > 0


TEXT: Rule = ("text", lambda value: isinstance(value, str))
NAME: Rule = (
    "a name that a folder can have, without / and \\",
    lambda value: isinstance(value, str) and bool(re.fullmatch(r"[^/\\\0]*[^/\\\0. ]", value)),
)
NAMES: Rule = (
    'a list of different texts, one or more, as ["a", "b"]',
    lambda value: all_different(value, lambda name: isinstance(name, str)),
)
SEEDS: Rule = (
    "a list of different whole numbers, 0 or more, as [0, 1, 2]",
    lambda value: all_different(value, whole(0)[1]),
)
TABLE: Rule = ("a table", lambda value: isinstance(value, dict))
FULL_TABLE: Rule = ("a table with one entry or more", lambda value: isinstance(value, dict) and bool(value))
TABLES: Rule = (
    "a list of tables",
    lambda value: isinstance(value, list) and all(isinstance(entry, dict) for entry in value),
)
POSITIVE: Rule = ("a number above 0", lambda value: is_number(value) and value > 0)
NUMBER: Rule = ("a number", is_number)
SHARE: Rule = ("a number from 0 to less than 1", lambda value: is_number(value) and 0 <= value < 1)
SWITCH: Rule = ("true or false", lambda value: isinstance(value, bool))
PRINTED: Rule = (
    "a number, or mean and deviation as [87.1, 0.36]",
    lambda value: is_number(value) or (isinstance(value, list) and len(value) == 2 and all(map(is_number, value))),
)
SETTING: Rule = ("text, true, false or a finite number, or a list or table of them", lambda value: _is_plain(value))

FILE: dict[str, Rule] = {
    **{"name": NAME, "title": TEXT, "noises": NAMES},
    **{"datasets": FULL_TABLE, "methods": FULL_TABLE, "protocols": FULL_TABLE},
    **{"note": TEXT, "transitions": TABLE, "paper": TABLE, "figures": TABLES},
}
DATASET = {"title": TEXT, "network": TABLE, "transition": TEXT, "subset": whole(1), "noise_rate": SHARE}
TRAINING = {"epochs": whole(1), "decay_from": whole(0), "batch_size": whole(1), "lr": POSITIVE}
PROTOCOL = {
    **{"seeds": SEEDS, **TRAINING, "datasets": NAMES},
    **{"network": TABLE, "transition": TEXT, "subset": whole(1), "note": TEXT},
}
METHOD = {"title": TEXT, "kind": TEXT, "note": TEXT, "transition": TEXT, "when": TABLES, "dropout": SHARE, "ema": SHARE}
CASE = {"dataset": NAMES, "noise": NAMES, "protocol": NAMES, "dropout": SHARE, "ema": SHARE}
TRANSITION = {"kind": TEXT, "network": TABLE}
FIGURE = {"name": TEXT, "title": TEXT, "dataset": TEXT, "noises": NAMES}
NETWORKS: dict[str, dict[str, Rule]] = {
    "mlp": {"hidden": whole(1), "dropout": SHARE, "slope": NUMBER},
    "cnn6": {"width": POSITIVE, "dropout": SHARE, "batch_norm": SWITCH},
    "lenet": {},
}


def check_table(
    table: Any, place: str, rules: Mapping[str, Rule], needed: Sequence[str] = (), *, settings: bool = False
) -> None:
    """Refuse a table that lacks a key, has one that is not known, or a value that breaks its rule.

    With ``settings`` it may have any further key: a setting of what the table describes.
    """
    if not isinstance(table, dict):
        raise ValueError(f"{place} must be a table; got {table!r}")
    for key in needed:
        if key not in table:
            raise ValueError(f"{place} lacks {key}")
    for key, value in table.items():
        if not settings:
            one_of(key, rules, place)
        what, fits = rules.get(key, SETTING)
        if not fits(value):
            raise ValueError(f"{place}: {key} must be {what}; got {value!r}")


def check_network(network: Any, place: str) -> None:
    """Refuse a network that is not known, or has no such option."""
    check_table(network, place, {"kind": TEXT}, ["kind"], settings=True)
    options = NETWORKS[one_of(network["kind"], NETWORKS, f"{place} kind")]
    check_table(network, place, {"kind": TEXT, **options})


def _is_plain(value: Any) -> bool:
    """Whether JSON can hold it: TOML has dates and NaN besides."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
