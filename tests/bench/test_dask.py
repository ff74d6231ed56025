import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'unflip[scale]'")

from distributed import LocalCluster

from tests.bench.test_schedule import Silence, results
from unflip.bench._dask import DaskPool
from unflip.bench.pool import LocalPool
from unflip.bench.schedule import run_cells
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store

# Of Dask's own processes and sockets, at their end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize(
    "methods", [["ridge", "linear"], pytest.param(["jocor", "mcldce-exact"], marks=pytest.mark.slow)], ids=str
)
def test_a_cluster_gives_the_same_records(experiment_file, tmp_path, methods):
    cells = read_experiment(experiment_file()).cells({"noise": ["pair 40"], "method": methods})
    broken = read_experiment(experiment_file(("alpha = 0.1", "alfa = 0.1"), name="broken.toml")).cells()[3]
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    local = LocalPool(1)
    local.threads = 1
    run_cells(cells, here, local, Silence())
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        assert run_cells(cells, there, DaskPool(cluster.scheduler_address), Silence()) == []
        (failed,) = run_cells([broken], there, DaskPool(cluster.scheduler_address), Silence())
    assert "its T failed: Traceback" in failed["error"]
    there.path(broken).unlink()
    there.path(broken.estimate).unlink()
    assert len(results(here)) == 2 + 1
    assert results(there) == results(here)


def test_no_scheduler():
    with pytest.raises(ValueError, match="there is no Dask scheduler at tcp://127.0.0.1:1"):
        DaskPool("tcp://127.0.0.1:1", timeout=0.5)


def test_a_cluster_that_goes_away_is_no_failed_cell(experiment_file):
    cell = read_experiment(experiment_file()).cells({"method": ["ridge"]})[0]
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        pool = DaskPool(cluster.scheduler_address)
        pool.submit(cell, None, None)
        pool.client.cancel(list(pool.futures))
        with pytest.raises(ConnectionError, match="the same command goes on"):
            pool.wait(20)
        pool.close()
