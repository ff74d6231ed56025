"""Importing unflip is light, and every public name is there."""

import subprocess
import sys

import pytest

import unflip

# A fresh interpreter in which some libraries are not installed.
WITHOUT = """
import sys
from importlib.machinery import PathFinder
class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {absent!r} else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""
HEAVY = {"torch", "dask", "distributed", "matplotlib", "jinja2"}


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_unflip_imports_nothing_heavy():
    report = "print(*{name.split('.')[0] for name in sys.modules}); "
    submodule = "unflip.linear.MCLDCEClassifier; "  # it is there without importing it
    others = "import unflip.audit, unflip.transition, unflip.cli; "
    shown = run(f"import sys; import unflip; {report}{submodule}{report}{others}{report}")
    top, linear, everything = (set(line.split()) for line in shown.splitlines())
    assert not top & (HEAVY | {"pandas", "sklearn", "scipy", "numpy"})
    assert "sklearn" in linear
    assert not (linear | everything) & HEAVY


@pytest.mark.parametrize("name", unflip.__all__)
def test_public_name_resolves(name):
    assert getattr(unflip, name) is not None
    assert name in dir(unflip)


def test_public_names_are_those_of_their_modules():
    from unflip.noise import symmetric

    assert unflip.symmetric is symmetric
    assert unflip.noise.symmetric is symmetric


def test_without_the_extras_everything_else_is_there():
    absent = ["torch", "pandas", "pyarrow", "PIL", "safetensors", "dask", "distributed", "matplotlib", "onnx"]
    run(f"""{WITHOUT.format(absent=absent)}
import inspect, unflip.linear
assert not {{"unflip.tables.images", "unflip.models._card"}} & set(sys.modules)
import unflip.transition
for package in (unflip, unflip.transition, unflip.linear):
    exec(f"from {{package.__name__}} import *")
    names = {{name for name, _ in inspect.getmembers(package)}}
    assert set(package.__all__) <= names, set(package.__all__) - names
    assert set(dir(package)) == names
    assert not names & {{"MCLDCELoss", "NoisyLabelClassifier", "VolMinNet", "CrossFitEM"}}
""")


def test_without_torch_a_name_that_needs_it_says_what_to_install():
    names = ["NoisyLabelClassifier", "MCLDCELoss", "CrossFitEM", "VolMinNet", "deep"]
    shown = run(f"""{WITHOUT.format(absent=["torch"])}
import unflip
for name in {names}:
    try:
        getattr(unflip, name)
    except ImportError as error:
        print(str(error).splitlines()[-1])
""")
    assert len(shown.splitlines()) == len(names)
    assert all("pip install 'unflip[deep]'" in line for line in shown.splitlines())


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'unflip' has no attribute 'symetric'"):
        _ = unflip.symetric


@pytest.mark.slow  # that nothing imports torchvision is in test_architecture.py, too
def test_a_broken_torchvision_does_no_harm(tmp_path):
    broken = tmp_path / "torchvision" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    first_on_the_path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    run(first_on_the_path + "import unflip; [getattr(unflip, name) for name in unflip.__all__]")
