"""Training continues where it stopped, and only from a checkpoint of the same run."""

import io

import numpy as np
import pytest
import torch
from torch import nn

from tests.deep.recorder import Awkward, Recorder, method, small_data, tensors, without_seconds
from unflip.deep.methods import make_method
from unflip.deep.networks import make_network
from unflip.deep.trainer import Trainer
from unflip.noise import symmetric


@pytest.fixture
def data():
    return small_data()


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
    ("name", "value"),
    [("lr", 0.5), ("seed", 1), ("batch_size", 8), ("ema", 0.9), ("decay_from", 1)],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, data, name, value):
    path = tmp_path / "checkpoint.pt"
    Trainer(method(), epochs=1, checkpoint=path).fit(*data)
    with pytest.raises(ValueError, match=f"was made with {name}="):
        Trainer(method(), **{"epochs": 2, "checkpoint": path, name: value}).fit(*data)


@pytest.mark.parametrize(("first", "second"), [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_a_checkpoint_of_another_precision_is_refused(tmp_path, data, first, second):
    path = tmp_path / "checkpoint.pt"
    Trainer(method(), epochs=1, checkpoint=path, precision=first).fit(*data)
    with pytest.raises(ValueError, match=f"precision='{first}', but now it is '{second}'"):
        Trainer(method(), epochs=2, checkpoint=path, precision=second).fit(*data)


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
    with pytest.raises(ValueError, match=r"shape of method.networks.0.scale=\[1\], but now it is \[3\]"):
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
    with pytest.raises(ValueError, match="is not a checkpoint of a Trainer"):
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
