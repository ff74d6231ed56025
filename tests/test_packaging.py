"""The pins in constraints.txt cover what pyproject.toml asks for."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = {canonicalize_name(pin.name): pin for pin in map(Requirement, (line for line in LINES if line[0] != "#"))}


@pytest.mark.parametrize("line", [line for line in REQUIREMENTS if not line.startswith("unflip[")])
def test_requirement_is_pinned_within_its_range(line):
    requirement = Requirement(line)
    (pin,) = PINS[canonicalize_name(requirement.name)].specifier
    assert pin.operator == "=="
    assert requirement.specifier.contains(pin.version)


def test_pins_hold_for_every_build():
    # "2.13.0+cpu" would exclude the build for another device; "2.13.0" takes either
    assert not [str(pin) for pin in PINS.values() if "+" in str(pin)]


def test_all_names_every_extra_but_dev():
    (everything,) = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert everything.extras == set(PROJECT["optional-dependencies"]) - {"all", "dev", "docs"}
