"""The pins in constraints.txt cover what pyproject.toml asks for, and those in constraints-oldest.txt its least."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = DOCUMENT["project"]
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
]


def pins(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(pin.name): pin for pin in map(Requirement, (line for line in lines if line[0] != "#"))}


PINS, OLDEST = pins("constraints.txt"), pins("constraints-oldest.txt")


@pytest.mark.parametrize("line", [line for line in REQUIREMENTS if not line.startswith("unflip[")])
def test_requirement_is_pinned_within_its_range(line):
    requirement = Requirement(line)
    (pin,) = PINS[canonicalize_name(requirement.name)].specifier
    assert pin.operator == "=="
    assert requirement.specifier.contains(pin.version)


def test_the_oldest_versions_are_the_lower_bounds():
    extras = PROJECT["optional-dependencies"]
    supported = [
        *PROJECT["dependencies"],
        *(line for name in ("data", "report", "scale", "onnx") for line in extras[name]),
    ]
    for requirement in map(Requirement, supported):
        (bound,) = requirement.specifier
        (pin,) = OLDEST[canonicalize_name(requirement.name)].specifier
        assert (bound.operator, pin.operator) == (">=", "==")
        assert pin.contains(bound.version)  # 2.2 is 2.2.0


def test_pins_hold_for_every_build():
    # "2.13.0+cpu" would exclude the build for another device; "2.13.0" takes either
    assert not [str(pin) for pin in PINS.values() if "+" in str(pin)]


def test_all_names_every_extra_but_those_of_developers():
    (everything,) = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert everything.extras == set(PROJECT["optional-dependencies"]) - {"all", "test", "dev", "docs"}


def test_the_wheel_holds_the_experiments():
    assert DOCUMENT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"] == {
        "experiments": "unflip/experiments"
    }
    assert list((ROOT / "experiments").glob("*.toml"))
