"""What the base classes do: the schedule of forgetting, and the prediction of two networks."""

import numpy as np
import pytest
import torch

from tests.deep.methods.conftest import C, build, linear, naive_forget
from unflip.deep import make_method
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
