"""What a shell gets that completes a command line of levelfield."""

from __future__ import annotations

import sys

import pytest

from levelfield import cli

SHELLS = {"bash": "complete -o nosort", "zsh": "#compdef levelfield", "fish": "complete --no-files"}


@pytest.fixture
def answer(monkeypatch, capsys):
    """Runs the program as a shell does; returns its exit code, stdout and stderr."""

    def ask(instruction, line=""):
        monkeypatch.setenv("_LEVELFIELD_COMPLETE", instruction)
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        monkeypatch.setattr(sys, "argv", ["levelfield"])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return ask


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_gets_its_completion_script(answer, monkeypatch, shell):
    monkeypatch.setattr(
        "click.shell_completion.BashComplete._check_version", lambda *_: None
    )  # which runs bash
    code, out, err = answer(f"{shell}_source")
    assert (code, err) == (0, "")
    assert SHELLS[shell] in out


def test_commands_are_completed_without_importing_them(answer, monkeypatch):
    def refuse(*_):
        raise AssertionError("a command was imported")

    monkeypatch.setattr(cli._Lazy, "get_command", refuse)
    assert answer("bash_complete", "levelfield stu") == (0, "plain,study\n", "")


@pytest.mark.parametrize(
    ("line", "completion"),
    [
        ("levelfield score --metr", "plain,--metric"),
        ("levelfield score --engine to", "plain,torch"),
        ("levelfield study au", "plain,audit"),
    ],
)
def test_options_their_values_and_subcommands_are_completed(answer, line, completion):
    code, out, err = answer("bash_complete", line)
    assert (code, err) == (0, "")
    assert completion in out.splitlines()


def test_a_command_that_can_not_be_completed_prints_nothing(answer, monkeypatch):
    monkeypatch.setitem(cli._ELSEWHERE, "absent", "levelfield-absent")
    assert answer("bash_complete", "levelfield absent ") == (1, "", "")
