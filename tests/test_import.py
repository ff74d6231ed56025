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


def loaded_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after running the code."""
    report = "; import sys; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_unflip_imports_nothing_heavy():
    assert not loaded_after("import unflip") & (HEAVY | {"pandas", "sklearn", "scipy", "numpy"})


@pytest.mark.parametrize("module", ["linear", "audit", "cli"])
def test_the_linear_path_imports_nothing_heavy(module):
    assert not loaded_after(f"import unflip.{module}") & HEAVY


def test_linear_models_load_neither_images_nor_cards():
    absent = ["pandas", "PIL", "pyarrow"]  # scikit-learn imports pandas itself, if it is installed
    code = f"import sys; sys.modules.update(dict.fromkeys({absent})); import unflip.linear; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"unflip.tables.images", "unflip.models._card", "torch", "dask"} & set(done.stdout.split())


@pytest.mark.parametrize("name", unflip.__all__)
def test_public_name_resolves(name):
    assert getattr(unflip, name) is not None
    assert name in dir(unflip)


def test_public_names_are_those_of_their_modules():
    from unflip.noise import symmetric

    assert unflip.symmetric is symmetric
    assert unflip.noise.symmetric is symmetric


def test_submodule_is_there_without_importing_it():
    assert "sklearn" in loaded_after("import unflip; unflip.linear.MCLDCEClassifier")


@pytest.mark.parametrize("package", ["unflip", "unflip.transition", "unflip.linear"])
def test_without_the_extras_everything_else_is_there(package):
    absent = ["torch", "pandas", "pyarrow", "PIL", "safetensors", "dask", "distributed", "matplotlib", "onnx"]
    code = f"""{WITHOUT.format(absent=absent)}
import inspect, {package} as package
from {package} import *
names = {{name for name, _ in inspect.getmembers(package)}}
assert set(package.__all__) <= names, set(package.__all__) - names
assert set(dir(package)) == names
assert not names & {{"MCLDCELoss", "NoisyLabelClassifier", "VolMinNet", "CrossFitEM"}}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["NoisyLabelClassifier", "MCLDCELoss", "CrossFitEM", "deep"])
def test_without_torch_a_name_that_needs_it_says_what_to_install(name):
    code = WITHOUT.format(absent=["torch"]) + f"import unflip; unflip.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install 'unflip[deep]'" in done.stderr.splitlines()[-1]


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'unflip' has no attribute 'symetric'"):
        _ = unflip.symetric


def test_a_broken_torchvision_does_no_harm(tmp_path):
    broken = tmp_path / "torchvision" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    first_on_the_path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    loaded_after(first_on_the_path + "import unflip; [getattr(unflip, name) for name in unflip.__all__]")
