"""Progress is shown on a terminal only."""

import numpy as np

from tests.deep.recorder import method, small_data
from unflip.deep import NoisyLabelClassifier
from unflip.deep.trainer import Trainer


def test_progress_is_shown_on_a_terminal_only(capsys):
    data = small_data()
    Trainer(method(), epochs=1).fit(*data)
    assert capsys.readouterr() == ("", "")
    Trainer(method(), epochs=2, progress=True).fit(*data, evaluate=data)
    out, err = capsys.readouterr()
    assert out == ""
    assert "recorder epoch 2/2" in err
    assert "accuracy" in err


def test_the_bar_says_which_choice_is_tried(capsys):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    NoisyLabelClassifier("ce", epochs=1, progress=True).fit(X, y)
    err = capsys.readouterr().err
    assert "trying weight_decay=0.01: epoch 1/1" in err
    assert "ce epoch 1/1" in err
