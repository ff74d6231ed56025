"""The trainer does what a textbook loop does."""

import copy
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tests.deep.recorder import Awkward, Recorder, method, small_data, without_seconds
from unflip.deep.adam import Adam
from unflip.deep.methods import make_method
from unflip.deep.networks import make_network
from unflip.deep.trainer import Trainer
from unflip.noise import symmetric


@pytest.fixture
def data():
    return small_data()


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


def test_sixteen_bits_in_training_and_32_elsewhere(data):
    x, y = data
    model = method()
    plain = copy.deepcopy(model.networks[0])
    trainer = Trainer(model, epochs=2, batch_size=16, lr=0.01, precision="bfloat16")
    trainer.fit(x, y)
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    for bx, by, *_ in model.seen:
        with torch.autocast("cpu", torch.bfloat16):
            z = plain(bx)
        optimizer.zero_grad()
        nn.functional.cross_entropy(z.float(), by).backward()
        optimizer.step()
    for ours, theirs in zip(model.networks[0].parameters(), plain.parameters(), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs)
    exact = model.networks[0](torch.from_numpy(x) / 255)
    torch.testing.assert_close(trainer.predict_logits(x), exact, rtol=0, atol=1e-6)
    Trainer(model, epochs=1, batch_size=16).fit(x, y)  # the method is free again
    z = model.train().logits(torch.from_numpy(x) / 255)
    assert torch.equal(z, model.networks[0](torch.from_numpy(x) / 255))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, ">f4"])
def test_inputs_other_than_bytes_are_not_scaled(data, dtype):
    x, y = data
    model = method()
    Trainer(model, epochs=1, batch_size=128).fit(x.astype(dtype), y)
    seen = model.seen[0][0]
    assert seen.dtype == torch.float32
    assert seen.sum().item() == pytest.approx(x.sum(dtype=np.int64))


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


@pytest.mark.parametrize("before", [False, True])
def test_tiny_numbers_are_zero_in_training_and_as_the_caller_left_them_after_it(data, before):
    def flushed():
        return bool(torch.full((1,), 1e-39) == 0)

    def note(trainer, record):
        seen.append(flushed())
        if record["epoch"] == 1:
            raise RuntimeError("stop")

    seen = []
    if not torch.set_flush_denormal(before):
        pytest.skip("this processor cannot flush denormal numbers")
    try:
        Trainer(method(), epochs=1, weight_decay=0.1).fit(*data)
        assert flushed() == before
        with pytest.raises(RuntimeError, match="stop"):
            Trainer(method(), epochs=2, weight_decay=0.1).fit(*data, callback=note)
        assert (seen, flushed()) == ([True, True], before)
    finally:
        torch.set_flush_denormal(False)


def test_threads_that_start_in_training_do_not_keep_treating_tiny_numbers_as_zero():
    code = (
        "import torch; torch.set_num_threads(2)\n"
        "from unflip.deep import trainer\n"
        "with trainer._flushed_denormals(): torch.ones(2**22).add_(1)\n"
        "assert bool((torch.full((2**22,), 1e-39) * 1.0 != 0).all())"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"OMP_NUM_THREADS": "2"})


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
    T = np.array([[0.8, 0.2, 0], [0, 0.8, 0.2], [0.2, 0, 0.8]])  # the logarithm of T is a constant of the forward loss
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


@pytest.mark.parametrize(
    ("x", "y", "weight", "message"),
    [
        (np.zeros((5, 6)), np.zeros(4, int), None, "y must have one value for each of the 5 samples"),
        (np.zeros((5, 6)), np.zeros(5, int), np.ones(3), "sample_weight must have one value"),
        (np.zeros((5, 6)), np.zeros(5), None, "one class number"),
        (np.zeros((5, 6)), np.zeros((5, 3), int), None, "one class number"),
        (np.zeros((0, 6)), np.zeros(0, int), None, "no samples"),
        ([(np.zeros((5, 6)), np.zeros(5, int))], None, np.ones(5), "sample_weight can only be given with arrays"),
    ],
)
def test_bad_data_are_refused(x, y, weight, message):
    with pytest.raises(ValueError, match=message):
        Trainer(method()).fit(x, y, sample_weight=weight)


@pytest.mark.parametrize(
    "setting",
    [
        *({"epochs": 0}, {"batch_size": 0}, {"steps_per_epoch": 0}, {"decay_from": -1}, {"seed": -1}, {"ema": 1.0}),
        {"precision": "float16"},
    ],
)
def test_bad_settings_are_refused(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        Trainer(method(), **setting)
