"""The trainer does what a textbook loop does, and goes on where it stopped."""

import copy
import io
import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from unflip.deep.adam import Adam
from unflip.deep.batches import MemoryBatches
from unflip.deep.methods import Method, make_method
from unflip.deep.networks import make_network
from unflip.deep.trainer import Trainer
from unflip.noise import symmetric

CPU = torch.device("cpu")


class Recorder(Method):
    """Cross-entropy that keeps what it was given."""

    name = "recorder"

    def __init__(self, network_factory, n_classes=3):
        super().__init__(network_factory, n_classes)
        self.seen = []

    def forward(self, x, y, epoch, weight=None):
        assert self.training
        self.seen.append((x.clone(), y.clone(), epoch, None if weight is None else weight.clone()))
        losses = nn.functional.cross_entropy(self.logits(x), y, reduction="none")
        return (losses if weight is None else losses * weight).mean()


class Awkward(nn.Module):
    """Batch norm, dropout, a layer used twice and one that is never used."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.norm, self.dropout, self.unused = nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(4, 4)

    def forward(self, x):
        h = self.norm(self.first(x)).relu()
        return self.last(self.shared(self.dropout(self.shared(h).relu())))


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=101)
    x = rng.integers(0, 200, size=(101, 6), dtype=np.uint8)
    x[np.arange(101), y] += 55
    return x, y


def method(factory=None, seed=0):
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return Recorder(factory or make_network("mlp", 6, 3, hidden=8))


def tensors(trainer):
    """Everything that training changes, by name."""
    found = {f"method.{name}": value for name, value in trainer.method.state_dict().items()}
    if trainer.average is not None:
        found |= {f"average.{name}": value for name, value in trainer.average.state_dict().items()}
    for k, state in trainer.optimizer.state_dict()["state"].items():
        found |= {f"optimizer.{k}.{name}": value for name, value in state.items()}
    return found


def without_seconds(history):
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_a_textbook_loop(data, weighted):
    x, y = data
    weight = np.linspace(0, 2, len(y)) if weighted else None
    model = method()
    plain = copy.deepcopy(model.networks[0])
    trainer = Trainer(
        model, epochs=5, batch_size=16, lr=0.01, decay_from=2, beta1_after_decay=0.1, weight_decay=0.01, ema=0.9, seed=7
    )
    history = trainer.fit(x, y, sample_weight=weight)

    average = copy.deepcopy(plain)
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=0.01)
    losses = [[] for _ in range(5)]
    for step, (bx, by, epoch, bw) in enumerate(model.seen, 1):
        if epoch >= 2:
            optimizer.param_groups[0].update(lr=0.01 * (5 - epoch) / 3, betas=(0.1, 0.999))
        loss = nn.functional.cross_entropy(plain(bx), by, reduction="none")
        if weighted:
            loss = loss * bw
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
        losses[epoch] += loss.tolist()
        decay = min(0.9, (1 + step) / (10 + step))
        for a, p in zip(average.parameters(), plain.parameters(), strict=True):
            a.data = decay * a.data + (1 - decay) * p.data

    for ours, theirs in ((model.networks[0], plain), (trainer.model.networks[0], average)):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, check_device=False)
    np.testing.assert_allclose([record["loss"] for record in history], np.mean(losses, axis=1), rtol=1e-5)
    assert [record["lr"] for record in history] == pytest.approx([0.01, 0.01, 0.01, 0.02 / 3, 0.01 / 3])
    assert [record["epoch"] for record in history] == [0, 1, 2, 3, 4]


def test_each_epoch_sees_every_sample_once_in_a_new_order(data):
    x, y = data
    model = method()
    Trainer(model, epochs=2, batch_size=16).fit(x, y, sample_weight=np.arange(101))
    orders = []
    for epoch in (0, 1):
        batches = [batch for batch in model.seen if batch[2] == epoch]
        assert [len(batch[1]) for batch in batches] == [16] * 6 + [5]
        order = torch.cat([batch[3] for batch in batches]).long()
        assert sorted(order.tolist()) == list(range(101))
        torch.testing.assert_close(torch.cat([batch[0] for batch in batches]), torch.from_numpy(x)[order] / 255)
        assert torch.equal(torch.cat([batch[1] for batch in batches]), torch.from_numpy(y)[order])
        orders.append(order)
    assert not torch.equal(*orders)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, ">f4"])
def test_inputs_other_than_bytes_are_not_scaled(data, dtype):
    x, y = data
    model = method()
    Trainer(model, epochs=1, batch_size=128).fit(x.astype(dtype), y)
    seen = model.seen[0][0]
    assert seen.dtype == torch.float32
    assert seen.sum().item() == pytest.approx(x.sum(dtype=np.int64))


def test_bytes_stay_bytes_and_are_not_copied_or_written(data):
    x, y = data
    x.flags.writeable = False
    held = MemoryBatches(x, y, None, CPU).x
    assert held.dtype == torch.uint8
    assert held.data_ptr() == x.ctypes.data
    Trainer(method(), epochs=1).fit(x, y)


def test_same_seed_same_result_and_the_callers_random_state_is_kept(data):
    def run(seed, disturb):
        torch.manual_seed(disturb)
        before = torch.get_rng_state()
        trainer = Trainer(method(Awkward), epochs=2, batch_size=16, seed=seed)
        trainer.fit(*data)
        assert torch.equal(before, torch.get_rng_state())
        return trainer.method.state_dict()

    first, again, other = run(0, 1), run(0, 2), run(1, 1)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["networks.0.first.weight"], other["networks.0.first.weight"])


def test_any_network(data):
    trainer = Trainer(method(Awkward), epochs=2, batch_size=16, ema=0.9)
    start = trainer.method.networks[0].unused.weight.clone()
    trainer.fit(*data, evaluate=data)
    network, average = trainer.method.networks[0], trainer.average.networks[0]
    assert torch.equal(start, network.unused.weight)
    assert network.norm.num_batches_tracked == 14
    for name in ("first.weight", "shared.weight", "norm.running_mean", "norm.running_var"):
        a, b = average.state_dict()[name], network.state_dict()[name]
        assert not torch.equal(a, b), name
        torch.testing.assert_close(a, b, rtol=0.5, atol=0.5)


@pytest.mark.parametrize("name", ["forward", "mcldce", "volminnet"])
def test_constants_are_not_averaged(data, name):
    T = np.array([[0.8, 0.2, 0], [0, 0.8, 0.2], [0.2, 0, 0.8]])  # log 0 = -inf is a constant of the forward loss
    trainer = Trainer(make_method(name, Awkward, 3, T), epochs=2, batch_size=16, ema=0.9)
    start = {key: value.clone() for key, value in trainer.method.state_dict().items()}
    trainer.fit(*data)
    state, average = trainer.method.state_dict(), trainer.model.state_dict()
    assert not any(value.isnan().any() for value in average.values())
    for key in average:
        if key.startswith("loss.") or ".unused." in key:
            assert torch.equal(average[key], start[key]), key
        elif key.endswith("num_batches_tracked"):
            assert average[key] == state[key] == 14
        else:
            assert not torch.equal(average[key], state[key]), key


def test_running_statistics_of_a_cnn_are_averaged():
    x, y = torch.rand(24, 1, 14, 14, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 3
    model = make_method("mcldce", make_network("cnn6", (1, 14, 14), 3, width=0.05), 3, symmetric(3, 0.1))
    norm = model.networks[0][1]
    means = []

    class Watch(Adam):
        def step(self, closure=None):
            means.append(norm.running_mean.clone())
            super().step()

        step.hooked = True

    trainer = Trainer(model, epochs=1, batch_size=8, ema=0.9, optimizer=Watch)
    trainer.fit(x, y)
    expected = torch.zeros_like(means[0])
    for step, mean in enumerate(means, 1):
        expected.lerp_(mean, 1 - (1 + step) / (10 + step))
    torch.testing.assert_close(trainer.average.networks[0][1].running_mean, expected)
    assert torch.equal(trainer.average.loss.rows, model.loss.rows)


def test_the_first_beta_may_be_zero_after_the_decay(data):
    trainer = Trainer(method(), epochs=2, decay_from=1, beta1_after_decay=0.0)
    betas = []
    trainer.fit(*data, callback=lambda t, _: betas.append(t.optimizer.param_groups[0]["betas"]))
    assert betas == [(0.9, 0.999), (0.0, 0.999)]


def test_parameter_groups_keep_their_learning_rates(data):
    class TwoRates(Recorder):
        def parameter_groups(self, lr):
            first, *rest = self.parameters()
            return [{"params": [first], "lr": 10 * lr}, {"params": rest}]

    trainer = Trainer(TwoRates(make_network("mlp", 6, 3)), epochs=4, decay_from=2, lr=0.01)
    rates = []
    trainer.fit(*data, callback=lambda t, _: rates.append([group["lr"] for group in t.optimizer.param_groups]))
    np.testing.assert_allclose(rates, [[0.1, 0.01]] * 3 + [[0.05, 0.005]])


@pytest.mark.parametrize("name", ["ce", "mcldce", "coteaching", "coteaching+", "jocor", "sigua", "gce", "volminnet"])
def test_every_method_learns(data, name):
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = make_method(name, make_network("mlp", 6, 3), 3, symmetric(3, 0.1))
    trainer = Trainer(model, epochs=30, batch_size=16, lr=0.01)
    history = trainer.fit(*data, evaluate=data)
    assert history[-1]["accuracy"] > max(0.5, history[0]["accuracy"])


# ---------------------------------------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("optimizer", [None, lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9)])
def test_resumes_bit_exactly(tmp_path, data, optimizer):
    settings = {"epochs": 6, "batch_size": 16, "lr": 0.01, "decay_from": 2, "ema": 0.9, "optimizer": optimizer}
    straight = Trainer(method(Awkward), **settings)
    straight.fit(*data, evaluate=data)

    class Stop(Exception):
        pass

    def stop(trainer, record):
        if record["epoch"] == 3:  # epochs 0, 1 and 2 are in the checkpoint
            raise Stop

    path = tmp_path / "run" / "checkpoint.pt"
    with pytest.raises(Stop):
        Trainer(method(Awkward), checkpoint=path, **settings).fit(*data, evaluate=data, callback=stop)
    assert [file.name for file in path.parent.iterdir()] == ["checkpoint.pt"]
    resumed = Trainer(method(Awkward, seed=5), checkpoint=path, **settings)
    epochs = []
    resumed.fit(*data, evaluate=data, callback=lambda _, record: epochs.append(record["epoch"]))

    assert epochs == [3, 4, 5]
    assert without_seconds(resumed.history) == without_seconds(straight.history)
    ours, theirs = tensors(resumed), tensors(straight)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    x, _ = data
    assert torch.equal(resumed.predict_logits(x), straight.predict_logits(x))
    # A finished run is only read.
    finished = Trainer(method(Awkward), checkpoint=path, **settings)
    assert finished.fit(*data) == resumed.history


def test_more_epochs_go_on(data):
    straight = Trainer(method(), epochs=4, batch_size=16)
    straight.fit(*data)
    twice = Trainer(method(), epochs=2, batch_size=16)
    twice.fit(*data)
    twice.epochs = 4
    assert without_seconds(twice.fit(*data)) == without_seconds(straight.history)
    ours, theirs = tensors(twice), tensors(straight)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("name", "value"), [("lr", 0.5), ("seed", 1), ("batch_size", 8), ("ema", 0.9), ("decay_from", 1)]
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, data, name, value):
    path = tmp_path / "checkpoint.pt"
    Trainer(method(), epochs=1, checkpoint=path).fit(*data)
    with pytest.raises(ValueError, match=f"was made with {name}="):
        Trainer(method(), **{"epochs": 2, "checkpoint": path, name: value}).fit(*data)


def test_a_checkpoint_with_more_epochs_than_asked_is_refused(tmp_path, data):
    path = tmp_path / "checkpoint.pt"
    Trainer(method(), epochs=3, checkpoint=path).fit(*data)
    asked = Trainer(method(), epochs=1, checkpoint=path)
    with pytest.raises(ValueError, match=r"has 3 epochs, but epochs=1; set epochs to 3 or more to use it, or remove"):
        asked.fit(*data)
    assert asked.history == []
    with pytest.raises(ValueError, match="was made with lr="):  # settings are compared first
        Trainer(method(), epochs=1, lr=0.5, checkpoint=path).fit(*data)


def test_a_trainer_further_than_its_checkpoint_compares_the_settings(tmp_path, data):
    path = tmp_path / "checkpoint.pt"
    Trainer(method(), epochs=1, checkpoint=path).fit(*data)
    further = Trainer(method(), epochs=2)
    further.fit(*data)
    further.checkpoint, further.lr = path, 0.5
    with pytest.raises(ValueError, match="was made with lr="):
        further.fit(*data)


def test_a_checkpoint_of_other_labels_is_refused(tmp_path, data):
    x, y = data
    path = tmp_path / "checkpoint.pt"
    Trainer(method(), epochs=1, checkpoint=path).fit(x, y)
    with pytest.raises(ValueError, match="labels="):
        Trainer(method(), epochs=2, checkpoint=path).fit(x, 2 - y)


@pytest.mark.parametrize(
    ("x", "weight", "message"),
    [
        (lambda x: 255 - x, None, "x="),
        (lambda x: x.astype(np.float32), None, "x.dtype="),
        (lambda x: x[:, :, np.newaxis], None, "x.shape="),
        (lambda x: x, np.arange(101), "sample_weight="),
    ],
)
def test_a_checkpoint_of_other_inputs_is_refused(tmp_path, data, x, weight, message):
    path = tmp_path / "checkpoint.pt"
    Trainer(method(), epochs=1, checkpoint=path).fit(*data)
    with pytest.raises(ValueError, match=f"was made with {message}"):
        Trainer(method(), epochs=2, checkpoint=path).fit(x(data[0]), data[1], sample_weight=weight)


def test_the_mark_of_large_data_takes_few_rows():
    x = np.zeros((2500, 2))
    marks = [MemoryBatches(x, np.zeros(2500, int), None, CPU).mark()]
    for row in (1, 3):  # every third row counts
        x[row] = 1
        marks.append(MemoryBatches(x, np.zeros(2500, int), None, CPU).mark())
    assert marks[0] == marks[1] != marks[2]


T = symmetric(3, 0.2)


@pytest.mark.parametrize(
    ("name", "first", "then", "message"),
    [
        ("mcldce", {"transition": T}, {"transition": symmetric(3, 0.3)}, "checksum of method.loss.mixing="),
        ("forward", {"transition": T}, {"transition": symmetric(3, 0.3)}, "checksum of method.loss.log_columns="),
        ("mcldce", {"transition": T}, {"transition": T, "operator": "published"}, "method.loss.operator='exact'"),
        ("gce", {"q": 0.7}, {"q": 0.5}, "method.loss.q=0.7"),
        ("gce", {}, {"k": 0.5}, "method.truncated_loss"),
        ("jocor", {"transition": T}, {"transition": symmetric(3, 0.3)}, "method.forget_rate=0"),
        ("jocor", {"forget_rate": 0.2}, {"forget_rate": 0.2, "co_lambda": np.float64(0.5)}, "method.co_lambda="),
        ("volminnet", {}, {"volume": 0.1}, "method.volume="),
    ],
)
def test_a_checkpoint_of_other_settings_of_the_method_is_refused(tmp_path, data, name, first, then, message):
    def run(epochs, settings, **network):
        made = make_method(name, make_network("mlp", 6, 3, **network), 3, **settings)
        Trainer(made, epochs=epochs, ema=0.9, checkpoint=tmp_path / "checkpoint.pt").fit(*data)

    run(1, first)
    with pytest.raises(ValueError, match=f"was made with {message}"):
        run(2, then)
    with pytest.raises(ValueError, match="was made with method.networks.0.1.out_features=256"):
        run(2, first, hidden=9)
    with pytest.raises(ValueError, match="was made with method.networks.0.2.negative_slope=0.01"):
        run(2, first, slope=0.1)
    run(2, first)
    run(2, first)  # finished: only read


def test_numbers_of_numpy_may_be_settings(tmp_path, data):
    for epochs in (1, 2):
        model = make_method("gce", make_network("mlp", 6, 3), 3, q=np.float32(0.5))
        trainer = Trainer(model, epochs=epochs, lr=np.float64(0.01), seed=np.int64(3), checkpoint=tmp_path / "c.pt")
        assert len(trainer.fit(*data)) == epochs


def test_what_a_method_keeps_while_it_trains_does_not_stop_a_resume(tmp_path, data):
    class Counting(Recorder):
        def __init__(self):
            super().__init__(make_network("mlp", 6, 3))
            self.calls = 0
            self.register_buffer("total", torch.zeros(()))

        def forward(self, x, y, epoch, weight=None):
            self.calls += 1
            self.total += len(x)
            return super().forward(x, y, epoch, weight)

    for epochs in (1, 2):
        trainer = Trainer(Counting(), epochs=epochs, ema=0.5, checkpoint=tmp_path / "c.pt")
        trainer.fit(*data)
    assert trainer.model.total == 202
    trainer.epochs = 3
    trainer.fit(*data)
    assert trainer.model.total == 303


def test_a_checkpoint_of_other_shapes_is_refused(tmp_path, data):
    class Scaled(nn.Linear):
        def __init__(self, n):
            super().__init__(6, 3)
            self.scale = nn.Parameter(torch.ones(n))

        def forward(self, x):
            return super().forward(x) * self.scale

    path = tmp_path / "checkpoint.pt"
    Trainer(method(lambda: Scaled(1)), epochs=1, checkpoint=path).fit(*data)
    with pytest.raises(ValueError, match=r"shape of method.networks.0.scale=\[1\], now it is \[3\]"):
        Trainer(method(lambda: Scaled(3)), epochs=2, checkpoint=path).fit(*data)


@pytest.mark.parametrize("part", ["method", "average", "optimizer"])
def test_a_checkpoint_whose_tensors_do_not_fit_is_refused(tmp_path, data, part):
    path = tmp_path / "checkpoint.pt"
    Trainer(method(), epochs=1, ema=0.9, checkpoint=path).fit(*data)
    state = torch.load(path, weights_only=True)
    state[part].popitem()
    torch.save(state, path)
    with pytest.raises(ValueError, match="checkpoint.pt does not fit"):
        Trainer(method(), epochs=2, ema=0.9, checkpoint=path).fit(*data)


class Malicious:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", "pickle", "other"])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, data, content):
    path = tmp_path / "checkpoint.pt"
    if isinstance(content, str):
        buffer = io.BytesIO()
        torch.save(Malicious() if content == "pickle" else {"weights": torch.zeros(2)}, buffer)
        content = buffer.getvalue()
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a trainer's checkpoint"):
        Trainer(method(), checkpoint=path).fit(*data)
    assert path.read_bytes() == content


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path, data, monkeypatch):
    path = tmp_path / "checkpoint.pt"
    Trainer(method(), epochs=1, checkpoint=path).fit(*data)
    before = path.read_bytes()

    def full(state, file):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="no space"):
        Trainer(method(), epochs=2, checkpoint=path).fit(*data)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# ------------------------------------------------------------------------------------------------ data, evaluation


class Stream(IterableDataset):
    """Batches that are made while they are read; the last one is smaller."""

    def __init__(self, x, y):
        self.x, self.y, self.epochs = x, y, []

    def set_epoch(self, epoch):
        self.epochs.append(epoch)

    def __iter__(self):
        for start in range(0, len(self.x), 16):
            yield self.x[start : start + 16], self.y[start : start + 16]


def test_iterables(data):
    x, y = data
    stream, loader = Stream(x, y), DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=16)
    streamed, loaded = Trainer(method(), epochs=2), Trainer(method(), epochs=2)
    history = streamed.fit(stream, evaluate=stream)
    assert stream.epochs == [0, 1]
    assert without_seconds(loaded.fit(loader, evaluate=data)) == without_seconds(history)
    assert sum(len(batch[1]) for batch in streamed.method.seen) == 2 * 101
    weighted = Trainer(method(), epochs=1)
    weighted.fit([(x, y, np.full(101, 0.5))])
    assert weighted.history[0]["loss"] == pytest.approx(0.5 * Trainer(method(), epochs=1).fit([(x, y)])[0]["loss"])


def test_what_can_be_read_only_once_is_refused(data):
    with pytest.raises(TypeError, match="read only once"):
        Trainer(method()).fit(iter([data]))
    with pytest.raises(TypeError, match="iterable of"):
        Trainer(method()).fit(3)
    with pytest.raises(ValueError, match="no batches"):
        Trainer(method()).fit([])


def test_evaluation_scores_all_samples(data):
    x, y = data
    trainer = Trainer(method(), epochs=2, batch_size=16, ema=0.5)
    (_, record) = trainer.fit(x, y, evaluate=(x, y))
    logits = trainer.predict_logits(x)
    assert logits.shape == (101, 3)
    assert record["accuracy"] == (logits.argmax(1).numpy() == y).mean()
    trainer.average.eval()
    with torch.no_grad():
        torch.testing.assert_close(logits, trainer.average.predict(torch.from_numpy(x) / 255))


def test_evaluation_by_a_function(data, tmp_path):
    trainer = Trainer(method(), epochs=1, checkpoint=tmp_path / "c.pt")
    values = itertools.cycle([{"a": np.float64(1), "b": torch.tensor(2)}])
    assert trainer.fit(*data, evaluate=lambda t: next(values))[0].items() >= {"a": 1.0, "b": 2}.items()
    again = Trainer(method(), epochs=2, checkpoint=tmp_path / "c.pt")  # NumPy's numbers could not be loaded again
    assert again.fit(*data, evaluate=lambda t: 0.25)[1]["accuracy"] == 0.25


@pytest.mark.parametrize("result", [np.array([0.5, 1]), torch.tensor([0.5, 1]), {"accuracy": (np.float32(0.5), 1)}])
def test_arrays_are_recorded_as_lists(data, tmp_path, result):
    for epochs in (1, 2):
        trainer = Trainer(method(), epochs=epochs, checkpoint=tmp_path / "c.pt", progress=True)
        trainer.fit(*data, evaluate=lambda t: result, callback=lambda t, record: record.update(by={np.int64(2): T}))
    assert [record["accuracy"] for record in trainer.history] == [[0.5, 1.0]] * 2
    assert trainer.history[0]["by"] == {2: T.tolist()}


def test_what_a_checkpoint_cannot_hold_is_not_recorded(data, tmp_path):
    with pytest.raises(ValueError, match="best is or contains a Linear"):
        Trainer(method(), checkpoint=tmp_path / "c.pt").fit(*data, evaluate=lambda t: {"best": [nn.Linear(1, 1)]})
    assert not any(tmp_path.iterdir())


def test_steps_per_epoch(data):
    model = method()
    Trainer(model, epochs=2, batch_size=16, steps_per_epoch=3).fit(*data)
    assert [batch[2] for batch in model.seen] == [0] * 3 + [1] * 3


def test_divergence_is_reported(tmp_path, data):
    class Diverging(Recorder):
        name = "diverging"

        def forward(self, x, y, epoch, weight=None):
            return super().forward(x, y, epoch) * (torch.nan if epoch == 1 else 1)

    path = tmp_path / "checkpoint.pt"
    with pytest.raises(FloatingPointError, match=r"diverging.*nan.*epoch 1"):
        Trainer(Diverging(make_network("mlp", 6, 3)), checkpoint=path).fit(*data)
    state = torch.load(path, weights_only=True)
    assert len(state["history"]) == 1
    assert all(value.isfinite().all() for value in state["method"].values())


def test_progress_is_shown_on_a_terminal_only(data, capsys):
    Trainer(method(), epochs=1).fit(*data)
    assert capsys.readouterr() == ("", "")
    Trainer(method(), epochs=2, progress=True).fit(*data, evaluate=data)
    out, err = capsys.readouterr()
    assert out == ""
    assert "recorder epoch 2/2" in err
    assert "accuracy" in err


@pytest.mark.parametrize(
    ("x", "y", "weight", "message"),
    [
        (np.zeros((5, 6)), np.zeros(4, int), None, "y must have one value for each of the 5 samples"),
        (np.zeros((5, 6)), np.zeros(5, int), np.ones(3), "sample_weight must have one value"),
        (np.zeros((5, 6)), np.zeros(5), None, "class numbers"),
        (np.zeros((5, 6)), np.zeros((5, 3), int), None, "class numbers"),
        (np.zeros((0, 6)), np.zeros(0, int), None, "no samples"),
        ([(np.zeros((5, 6)), np.zeros(5, int))], None, np.ones(5), "sample_weight goes with arrays"),
    ],
)
def test_bad_data_are_refused(x, y, weight, message):
    with pytest.raises(ValueError, match=message):
        Trainer(method()).fit(x, y, sample_weight=weight)


@pytest.mark.parametrize(
    "setting",
    [{"epochs": 0}, {"batch_size": 0}, {"steps_per_epoch": 0}, {"decay_from": -1}, {"seed": -1}, {"ema": 1.0}],
)
def test_bad_settings_are_refused(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        Trainer(method(), **setting)


def test_adam_is_torchs_adam():
    generator = torch.Generator().manual_seed(0)
    ours = [torch.randn(shape, generator=generator).requires_grad_() for shape in ((40, 7), (5,), (), (3,))]
    theirs = [p.detach().clone().requires_grad_() for p in ours]
    pair = [
        kind([{"params": ps[:1], "lr": 0.1}, {"params": ps[1:]}], weight_decay=0.1, betas=(0.8, 0.99), **options)
        for kind, ps, options in ((Adam, ours, {}), (torch.optim.Adam, theirs, {"fused": True}))
    ]
    for step in range(20):
        for k, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            if k < 2 or (k == 2 and step % 2):  # one without a gradient now and then, one always
                p.grad = torch.randn(p.shape, generator=generator)
                q.grad = p.grad.clone()
            else:
                p.grad = q.grad = None
        for optimizer in pair:
            optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(ours, theirs, strict=True))
    states = [optimizer.state_dict() for optimizer in pair]
    assert states[0]["state"].keys() == states[1]["state"].keys()
    assert states[0]["param_groups"] == states[1]["param_groups"]
    for k in states[0]["state"]:
        assert all(torch.equal(value, states[1]["state"][k][name]) for name, value in states[0]["state"][k].items())
    with pytest.raises(ValueError, match="closure"):
        pair[0].step(lambda: 0)
