"""Deep MC-LDCE: what it predicts from outputs that are no probabilities."""

import numpy as np

from tests.deep.methods.conftest import build
from unflip.core import project_to_simplex


def test_raw_mcldce_predicts_the_nearest_probabilities(batch):
    x, _, _ = batch
    method = build("mcldce", output="raw")
    h = method.networks[0](x).detach()
    p = method.predict(x).softmax(1).detach().numpy()
    np.testing.assert_allclose(p, project_to_simplex(h.numpy()), atol=1e-6)
    assert (p.argmax(axis=1) == h.argmax(1).numpy()).all()
