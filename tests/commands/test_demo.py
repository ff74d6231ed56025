"""What the demo shows."""

import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
from unflip.commands.demo import run_demo


@pytest.fixture(scope="module")
def result():
    return run_demo()


def test_demo_finds_the_wrong_labels(result):
    assert result.noise_rate > 0.38
    assert result.precision > 0.9
    assert result.recall > 0.9
    assert result.noise_rate_left < 0.05
    assert result.images.shape == (result.n_train, 1, 8, 8)
    assert result.images.max() == 1


def test_demo_shows_what_the_correction_is_worth(result):
    rows = {row.classifier: row for row in result.rows}
    assert rows["MC-LDCE, exact operator"].accuracy > rows["ridge"].accuracy + 0.08
    assert rows["MC-LDCE, exact, CV"].accuracy > rows["ridge"].accuracy + 0.1
    assert rows["MC-LDCE, exact operator"].transition_error < 0.3
    assert rows["MC-LDCE, exact, true T"].transition_error == 0
    assert rows["ridge"].transition_error is None
    exact = rows["MC-LDCE, exact operator"]
    assert exact.estimate.low < exact.accuracy < exact.estimate.high
