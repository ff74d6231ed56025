"""Fitting on a Dask cluster, by its address."""

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")

from tests.commands.people import invoke, write_people
from unflip import load

distributed = pytest.importorskip("distributed")

# Of Dask's own sockets, at their end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_people(tmp_path_factory.mktemp("people"))


def test_dask_needs_a_scheduler(folder, tmp_path, monkeypatch):
    client = distributed.Client
    monkeypatch.setattr("unflip.commands._dask.Client", lambda address, timeout: client(address, timeout=0.5))
    done = invoke("fit", folder / "parts", "--label", "kind", "--out", tmp_path / "m", "--dask", "tcp://127.0.0.1:1")
    assert done.exit_code == 1
    assert "unflip: there is no Dask scheduler at tcp://127.0.0.1:1" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_dask_gives_the_same_model(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)  # where the path is relative, workers elsewhere get it whole
    common = ["fit", "parts", "--label", "kind", "--weights", "count"]
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "protocol": "tcp"}
    with distributed.LocalCluster(**options, dashboard_address=":0") as cluster:
        done = invoke(*common, "--out", tmp_path / "dask", "--dask", cluster.scheduler_address)
        bad = invoke(*common[:3], "year", "--out", tmp_path / "bad", "--dask", cluster.scheduler_address)
    assert done.exit_code == 0, done.output
    assert invoke(*common, "--out", tmp_path / "threads", "--out-of-core").exit_code == 0
    one, two = load(tmp_path / "dask"), load(tmp_path / "threads")
    assert np.array_equal(one.classifier_.coef_, two.classifier_.coef_)
    assert bad.exit_code == 1
    assert "has only one class, [2020]" in bad.stderr
