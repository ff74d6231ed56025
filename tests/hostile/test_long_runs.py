"""Long runs that are killed: experiments, downloads, workers, a Dask scheduler, and everything at once (soak)."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.bench.conftest import TINY, experiment_file  # noqa: F401
from tests.bench.test_schedule import COMMAND, results
from tests.datasets.server import serve
from tests.hostile.conftest import start
from unflip.bench.record import work
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def children(pid):
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_end_with_their_parent(tmp_path):
    """At once, and although they are busy in C, where no thread of theirs can run."""
    code = """
import os, signal, sys
from unflip.bench import workers
class Busy:
    hash = "x"
    def __reduce__(self):
        return (eval, (f"open({sys.argv[1]!r}, 'w').close() or __import__('ctypes').PyDLL(None).sleep(60)",))
if __name__ == "__main__":
    worker = workers._Worker(None, 1)
    worker.connection.send((Busy(), None, None))
    print(worker.process.pid, flush=True)
    sys.stdin.readline()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "busy")], **pipes) as process:
        worker = int(process.stdout.readline())
        while not (tmp_path / "busy").exists():
            time.sleep(0.05)
        time.sleep(0.1)
        process.kill()
        ended = time.monotonic()
        while is_running(worker) and time.monotonic() < ended + 5:
            time.sleep(0.01)
        assert not is_running(worker)
        assert time.monotonic() - ended < 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_experiment_killed_in_the_middle_of_training(experiment_file, tmp_path):  # noqa: F811
    """The main process alone is killed, some epochs into the training of a network: no worker is left behind."""
    torch = pytest.importorskip("torch")
    epochs, network = 60, TINY[TINY.index("[methods.jocor]") : TINY.index("[methods.mcldce-exact]")]
    text = TINY[: TINY.index("[methods.ridge]")] + network  # one cell: most of the time goes into starting Python
    changes = ("epochs = 3", f"epochs = {epochs}"), ('noises = ["sym 20", "pair 40"]', 'noises = ["sym 20"]')
    experiment = experiment_file(*changes, text=text)
    folder = tmp_path / "killed"
    command = [*COMMAND, str(experiment), "--store", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not list(folder.glob("checkpoints/[!.]*.pt")):  # written after each epoch
            time.sleep(0.01)
        workers = children(process.pid)
        process.kill()
        process.wait()
        killed = time.monotonic()
        while any(is_running(pid) for pid in workers) and time.monotonic() < killed + 5:
            time.sleep(0.01)
        assert workers
        assert not [pid for pid in workers if is_running(pid)]
    assert results(Store(folder)) == {}
    (checkpoint,) = folder.glob("checkpoints/[!.]*.pt")
    before = torch.load(checkpoint, weights_only=True)["history"]
    assert 1 <= len(before) < epochs
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert os.listdir(folder / "checkpoints") == []
    (cell,) = read_experiment(experiment).cells()
    plain = json.loads(json.dumps(work(cell, None, None, None)["result"]))  # in this process, never interrupted
    (resumed,) = Store(folder).records([cell])
    assert len(plain["accuracy"]) == epochs
    assert resumed["result"] | {"seconds": 0} == plain | {"seconds": 0}
    assert resumed["result"]["seconds"] > sum(epoch["seconds"] for epoch in before)


@pytest.mark.slow
def test_a_download_killed_at_random_moments(tmp_path):
    pytest.importorskip("pooch")
    content = np.random.default_rng(0).bytes(4_000_000)
    code = (
        "import sys; from pathlib import Path; from unflip.datasets import download; download.CHUNK = 20_000;"
        "from unflip.datasets.entry import Download; import time\n"
        "slow = lambda *_: time.sleep(0.005)\n"
        "url, checksum, path = sys.argv[1:]\n"
        "download._retrieve(Download(url, checksum, 'x.bin'), Path(path), slow)"
    )
    random, path = np.random.default_rng(1), tmp_path / "x.bin"
    with serve({"x.bin": content}) as site:
        checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
        command = [sys.executable, "-c", code, f"{site.url}x.bin", checksum, str(path)]
        for _ in range(6):
            with subprocess.Popen(command) as process:
                part = path.with_name("x.bin.part")
                before = part.stat().st_size if part.exists() else 0
                while process.poll() is None and not (part.exists() and part.stat().st_size > before):
                    time.sleep(0.005)
                time.sleep(random.random() / 5)
                process.kill()
            assert not path.exists() or path.read_bytes() == content  # never half of it under its name
        subprocess.run(command, check=True)
        resumed = [wanted for _, wanted in site.requests if wanted is not None]
    assert path.read_bytes() == content
    assert len(resumed) >= 5


class Cluster:
    """A Dask scheduler and its workers, each a process that can be killed."""

    def __init__(self, folder, n_workers):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        known = folder / f"scheduler-{time.monotonic_ns()}.json"
        dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
        self.scheduler = subprocess.Popen([*dask, "--scheduler-file", str(known)], **quiet)
        dask = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(known), "--no-nanny"]
        dask += ["--nthreads", "1", "--no-dashboard", "--death-timeout", "60"]
        self.workers = [subprocess.Popen(dask, **quiet) for _ in range(n_workers)]
        while not known.exists():
            time.sleep(0.1)
        self.address = json.loads(known.read_text())["address"]

    def __enter__(self):
        from distributed import Client

        with Client(self.address, timeout=60) as client:
            client.wait_for_workers(len(self.workers), timeout=120)
        return self

    def __exit__(self, *_):
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


# Of Dask's own processes and sockets, at their end.
ignore_dask_warnings = pytest.mark.filterwarnings(
    "ignore:unclosed", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning"
)


@pytest.mark.slow
@pytest.mark.timeout(400)
@ignore_dask_warnings
def test_a_dask_scheduler_that_is_killed(tmp_path):
    pytest.importorskip("distributed")
    pd = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    (tmp_path / "parts").mkdir()
    for k in range(40):
        frame = pd.DataFrame(random.normal(size=(20_000, 5)), columns=list("abcde"))
        frame.assign(kind=np.where(frame["a"] > 0, "x", "y")).to_csv(tmp_path / "parts" / f"{k}.csv", index=False)
    with Cluster(tmp_path, 1) as cluster:
        parts, out = tmp_path / "parts", tmp_path / "model"
        fit = start("fit", parts, "--label", "kind", "--out", out, "--dask", cluster.address)
        fit.stderr.readline()  # it tells that it reads
        cluster.scheduler.kill()
        _, errors = fit.communicate(timeout=200)
    assert fit.returncode == 1
    assert "Traceback" not in errors
    assert "the connection to the Dask scheduler" in errors.strip().splitlines()[-1]
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
@ignore_dask_warnings
@pytest.mark.parametrize("killed", ["worker", "scheduler"])
def test_an_experiment_on_dask_whose_processes_are_killed(experiment_file, tmp_path, killed):  # noqa: F811
    """In the middle of training: what is lost is trained again, by another worker or by the next run, to the bit."""
    pytest.importorskip("distributed")
    pytest.importorskip("torch")
    network = TINY[TINY.index("[methods.jocor]") : TINY.index("[methods.mcldce-exact]")]
    text = TINY[: TINY.index("[methods.ridge]")] + network
    experiment = experiment_file(("epochs = 3", "epochs = 60"), ("seeds = [0]", "seeds = [0, 1]"), text=text)
    folder = tmp_path / "store"
    command = [*COMMAND, str(experiment), "--store", str(folder), "--dask"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with Cluster(tmp_path, 2) as cluster, subprocess.Popen([*command, cluster.address], **pipes) as process:
        while process.poll() is None and not list(folder.glob("records/[!.]*.json")):
            time.sleep(0.01)  # two of four are trained at a time; once one has ended, both workers train
        (cluster.workers[0] if killed == "worker" else cluster.scheduler).kill()
        _, errors = process.communicate(timeout=400)
    assert "Traceback" not in errors
    if killed == "scheduler":
        assert process.returncode == 1
        assert "the connection to the Dask cluster is lost; run the same command again" in errors.splitlines()[-1]
        done = results(Store(folder))
        assert 1 <= len(done) < 4
        with Cluster(tmp_path, 2) as cluster:
            subprocess.run([*command, cluster.address], check=True, stdout=subprocess.DEVNULL)
    assert process.returncode == (0 if killed == "worker" else 1)
    cells = read_experiment(experiment).cells()
    for cell, record in zip(cells, Store(folder).records(cells), strict=True):
        plain = json.loads(json.dumps(work(cell, None, None, None)["result"]))  # in this process, never interrupted
        assert record["result"] | {"seconds": 0} == plain | {"seconds": 0}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_soak():
    soak = Path(__file__).with_name("soak.py")
    done = subprocess.run(
        [sys.executable, str(soak), "--seconds", "20", "--processes", "2"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
