"""Progress is shown on a terminal only."""

from tests.deep.recorder import method, small_data
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
