import pytest

TINY = """
name = "tiny"
title = "A tiny experiment"
noises = ["sym 20", "pair 40"]

[protocols.paper]
epochs = 3
decay_from = 1
batch_size = 64
lr = 0.01
seeds = [0]

[datasets.digits]
title = "Digits"
network = { kind = "mlp", hidden = 16 }
transition = "volmin"

[transitions.volmin]
kind = "volmin"
rounds = 1
alpha = 0.1

[methods.ridge]
title = "Ridge"
kind = "ridge"

[methods.jocor]
title = "JoCoR"
kind = "jocor"
forget_rate = "noise rate"

[methods.mcldce-exact]
title = "MC-LDCE"
kind = "mcldce"
transition = "estimated"
operator = "exact"
dropout = 0.5
ema = 0.9

[methods.linear]
title = "MC-LDCE, linear"
kind = "MCLDCEClassifier"
transition = "estimated"
"""


@pytest.fixture
def experiment_file(tmp_path):
    """A function that writes an experiment file, the tiny one with replacements, and returns its path."""

    def write(*replacements, text=TINY, name="tiny.toml"):
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "experiments" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write
