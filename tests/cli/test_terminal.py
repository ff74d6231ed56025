"""What a person sees of an error: one sentence, and where it happened on demand."""

import pytest
import typer

from unflip.cli.terminal import one_sentence


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no column 'a'"), "unflip: no column 'a'\n"),
        (MemoryError(), "unflip: MemoryError\n"),
        (RuntimeError("two\nlines."), "unflip: RuntimeError: two lines. To see where, set UNFLIP_TRACEBACK=1\n"),
        (AssertionError(), "unflip: AssertionError. To see where, set UNFLIP_TRACEBACK=1\n"),
        (
            FloatingPointError("overflow"),
            "unflip: FloatingPointError: overflow. To see where, set UNFLIP_TRACEBACK=1\n",
        ),
        (KeyError("x"), "unflip: KeyError: 'x'. To see where, set UNFLIP_TRACEBACK=1\n"),
    ],
    ids=repr,
)
def test_an_error_is_one_sentence(error, line, capsys, monkeypatch):
    monkeypatch.delenv("UNFLIP_TRACEBACK", raising=False)
    with pytest.raises(typer.Exit) as stopped, one_sentence():
        raise error
    assert stopped.value.exit_code == 1
    assert capsys.readouterr().err == line
    monkeypatch.setenv("UNFLIP_TRACEBACK", "1")
    with pytest.raises(type(error)) as shown, one_sentence():
        raise error
    assert shown.value is error


@pytest.mark.parametrize("error", [typer.Exit(3), typer.Abort(), typer.BadParameter("too big")], ids=repr)
def test_what_is_for_typer_passes(error, capsys):
    with pytest.raises(type(error)) as passed, one_sentence():
        raise error
    assert passed.value is error
    assert capsys.readouterr().err == ""
