"""What the base classes do: forgetting, the prediction of two networks, and what is kept for each sample."""

import numpy as np
import pytest
import torch

from tests.deep.methods.conftest import C, build, linear, naive_forget
from tests.deep.recorder import Awkward, Recorder, small_data, tensors, without_seconds
from unflip.deep import Trainer, make_method
from unflip.deep.distributed import World
from unflip.noise import symmetric

SMALL_LOSS = ["coteaching", "coteaching+", "jocor", "sigua"]


class TestForgetSchedule:
    @pytest.mark.parametrize(("num_gradual", "exponent"), [(10, 1.0), (10, 2.0), (5, 0.5), (1, 1.0), (0, 1.0)])
    def test_equals_the_published_array(self, num_gradual, exponent):
        method = make_method("sigua", linear, C, forget_rate=0.4, num_gradual=num_gradual, exponent=exponent)
        for epoch in range(30):
            assert method.forget(epoch) == pytest.approx(naive_forget(epoch, 0.4, num_gradual, exponent))

    @pytest.mark.parametrize("name", SMALL_LOSS)
    def test_auto_is_the_noise_rate(self, name):
        T, prior = symmetric(C, 0.2) * 0.5 + np.eye(C) * 0.5, np.full(C, 1 / C)
        assert make_method(name, linear, C, T).forget_rate == pytest.approx(0.1)
        T[0], prior = [0.5, 0.5, 0, 0], np.array([0.7, 0.1, 0.1, 0.1])
        method = make_method(name, linear, C, T, prior)
        assert method.forget_rate == pytest.approx(0.7 * 0.5 + 0.3 * 0.1)
        assert method.needs_transition

    @pytest.mark.parametrize("name", SMALL_LOSS)
    def test_a_given_rate_needs_no_transition(self, name):
        method = make_method(name, linear, C, forget_rate=0.25)
        assert not method.needs_transition
        assert method.forget_rate == method.forget(10) == method.forget(200) == 0.25
        assert method.forget(0) == 0
        with pytest.raises(ValueError, match=f"method '{name}' needs transition".replace("+", r"\+")):
            make_method(name, linear, C)

    def test_number_of_samples_kept(self):
        method = make_method("sigua", linear, C, forget_rate=0.3)
        assert [method.n_kept(10, n) for n in (1, 2, 10, 128)] == [1, 1, 7, 89]
        assert method.n_kept(0, 128) == 128


def test_two_networks_average_their_probabilities(batch):
    x, _, _ = batch
    method = build("jocor")
    a, b = (network(x).softmax(1) for network in method.networks)
    torch.testing.assert_close(method.predict(x).exp(), (a + b) / 2)


class Counter(Recorder):
    """Counts how often each sample was seen, and keeps its last predictions."""

    name = "counter"
    per_sample = True

    def begin(self, n_samples, y):
        self.keep("labels", y)
        self.keep("count", torch.zeros(n_samples, dtype=torch.int64))
        self.keep("predicted", torch.zeros(n_samples, self.n_classes))

    def between_epochs(self, epoch, predict):
        assert not self.training
        assert not torch.is_grad_enabled()
        assert int(self.count.sum()) == epoch * len(self.count)
        self.predicted.copy_(predict())
        assert torch.equal(predict(lambda x: self.logits(x).argmax(1)), self.predicted.argmax(1))

    def forward(self, x, y, epoch, weight=None, *, index):
        assert torch.equal(self.labels[index], y)
        self.count[index] += 1
        # The loss reads what is kept, so that a run which lost it would end elsewhere.
        return super().forward(x, y, epoch, weight) + (self.logits(x) - self.predicted[index]).square().mean()


class TestPerSample:
    def trainer(self, network=Awkward, **settings):
        torch.manual_seed(0)
        return Trainer(Counter(network), **{"epochs": 4, "batch_size": 16, "lr": 0.01, "ema": 0.9} | settings)

    def test_the_rows_of_each_batch(self):
        x, y = small_data()
        trainer = self.trainer()
        trainer.fit(x, y)
        assert torch.equal(trainer.method.count, torch.full((len(y),), 4))
        assert torch.equal(trainer.model.count, trainer.method.count)  # the average has a copy
        trainer.epochs = 6
        trainer.fit(x, y)  # goes on
        assert torch.equal(trainer.method.count, torch.full((len(y),), 6))
        trainer.epochs = 7
        with pytest.raises(ValueError, match="began with 101 samples, but now there are 50; continue with the same"):
            trainer.fit(x[:50], y[:50])
        Trainer(trainer.method, epochs=1).fit(x[:50], y[:50])  # a new trainer starts again
        trainer.method.forget_samples()
        assert set(trainer.method.state_dict()) == set(Counter(Awkward).state_dict())

    def test_predictions_are_those_of_the_rows_in_order(self):
        x, y = small_data()
        trainer = self.trainer(epochs=1)
        with torch.no_grad():
            before = trainer.method.eval().predict(torch.tensor(x, dtype=torch.float32) / 255)
        trainer.fit(x, y)
        torch.testing.assert_close(trainer.method.predicted, before)

    def test_a_checkpoint_has_what_is_kept(self, tmp_path):
        data = small_data()
        straight = self.trainer()
        straight.fit(*data)

        def stop(trainer, record):
            if record["epoch"] == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.trainer(checkpoint=tmp_path / "c.pt").fit(*data, callback=stop)
        resumed = self.trainer(checkpoint=tmp_path / "c.pt")
        resumed.fit(*data)
        assert without_seconds(resumed.history) == without_seconds(straight.history)
        ours, theirs = tensors(resumed), tensors(straight)
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
        assert "method.predicted" in " ".join(theirs)

    def test_batches_and_processes_are_refused(self):
        x, y = small_data()
        with pytest.raises(ValueError, match="'counter' keeps something for each sample, but batches do not say which"):
            self.trainer().fit([(x, y)])
        with pytest.raises(ValueError, match="several processes do not share; train it in one process"):
            self.trainer()._begin(None, World(0, 2))
