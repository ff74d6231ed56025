import os
import signal
import time
from dataclasses import fields

import pytest
from joblib import cpu_count

from tests.bench.test_schedule import InlinePool, Silence, done, results
from unflip.bench.cells import Cell
from unflip.bench.record import fingerprint, work
from unflip.bench.schedule import run_cells
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store
from unflip.bench.workers import DaskPool, LocalPool

# Of Dask's own processes and sockets, at their end.
ignore_dask_warnings = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def cluster():
    """The address of a scheduler with one worker."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'unflip[scale]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        # The worker is in this process, because one of its own takes seconds to start; what it gets comes by TCP.
        options = {"processes": False, "protocol": "tcp", "dashboard_address": None}
        with distributed.LocalCluster(n_workers=1, threads_per_worker=2, **options) as cluster:
            yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """The same bits for any number of jobs."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@ignore_dask_warnings
@pytest.mark.parametrize(
    "methods", [["ridge", "linear"], pytest.param(["jocor", "mcldce-exact"], marks=pytest.mark.slow)], ids=str
)
def test_a_cluster_gives_the_same_records(experiment_file, tmp_path, methods, cluster):
    cells = read_experiment(experiment_file()).cells({"noise": ["pair 40"], "method": methods})
    broken = read_experiment(experiment_file(("alpha = 0.1", "alfa = 0.1"), name="broken.toml")).cells()[3]
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    run_cells(cells, here, InlinePool(1, lambda task, T: work(task, T, None, None)), Silence())
    assert run_cells(cells, there, DaskPool(cluster), Silence()) == []
    (failed,) = run_cells([broken], there, DaskPool(cluster), Silence())
    assert "the estimate of its T failed: Traceback" in failed["error"]
    there.path(broken).unlink()
    there.path(broken.estimate).unlink()
    assert len(results(here)) == 2 + 1
    assert results(there) == results(here)


@ignore_dask_warnings
def test_no_scheduler():
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'unflip[scale]'")
    with pytest.raises(ValueError, match="no Dask scheduler answers at tcp://127.0.0.1:1"):
        DaskPool("tcp://127.0.0.1:1", timeout=0.5)


@ignore_dask_warnings
def test_a_cluster_that_goes_away_is_no_failed_cell(experiment_file, cluster):
    cell = read_experiment(experiment_file()).cells({"method": ["ridge"]})[0]
    pool = DaskPool(cluster)
    pool.submit(cell, None, None)
    pool.client.cancel(list(pool.futures))
    with pytest.raises(ConnectionError, match="run the same command again to continue"):
        pool.wait(20)
    pool.close()


class Endless(Cell):
    """A cell that a worker never finishes receiving."""

    def __reduce__(self):
        return time.sleep, (600,)


def test_a_worker_that_is_killed_fails_its_cell_only(experiment_file, tmp_path, monkeypatch):
    """Another cell comes after it, in a new worker, which has all cores."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    ridge, jocor = read_experiment(experiment_file()).cells({"noise": ["sym 20"]})[:2]
    endless = Endless(**{field.name: getattr(jocor, field.name) for field in fields(jocor)})
    pool, store = LocalPool(1), Store(tmp_path / "store")

    class Killer(Silence):
        def tick(self):
            """Kill the worker that has the endless cell, which leaves a checkpoint."""
            for worker in pool.workers:
                if worker.task is endless:
                    (store.folder / "checkpoints").mkdir(exist_ok=True)
                    store.checkpoint(endless, fingerprint()).touch()
                    os.kill(worker.process.pid, signal.SIGKILL)

    (failed,) = run_cells([endless, ridge], store, pool, Killer())
    assert failed["hash"] == endless.hash
    assert "killed by signal 9" in failed["error"]
    assert store.done(ridge)["threads"] == cpu_count()

    class Retry(InlinePool):
        def submit(self, task, T, checkpoint):
            assert checkpoint.exists()  # it goes on where the first attempt was killed
            super().submit(task, T, checkpoint)

    assert run_cells([endless], store, Retry(1, done), Silence()) == []
    assert not any(store.folder.glob("checkpoints/*.pt"))
    assert "OMP_NUM_THREADS" not in os.environ  # it was for the workers


def test_threads_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert LocalPool(1).threads == cpu_count()
    assert LocalPool(10 * cpu_count()).threads == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert LocalPool(1).threads == 1
