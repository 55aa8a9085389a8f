"""What is missing where a number can't be derived, and the command that fills it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import click
import pytest

import levelfield_reproductions as papers
from levelfield.cli import levelfield
from levelfield.cli.options import Word
from levelfield.core.errors import UserError
from levelfield.core.registry import create, matching
from levelfield.datasets import dataset
from levelfield.io.toml import read_toml
from levelfield_reproductions import PAPERS, Gap, Outcome, Verdict, read_paper


def outcomes() -> Iterator[Outcome]:
    for table in papers.tables():
        yield from papers.derive(table).outcomes


def check(command: str) -> None:
    """Holds a command line against the parser, the metrics, their options, sets and tables."""
    name, *words = shlex.split(command)
    assert name == "levelfield"
    parser: click.Command = levelfield
    context = click.Context(levelfield, info_name=name)
    while isinstance(parser, click.Group):
        below = parser.get_command(context, words[0])
        assert below is not None, words[0]
        parser, words = below, words[1:]
        context = click.Context(parser, info_name=parser.name, parent=context)
    parsed, _, _ = parser.make_parser(context).parse_args(list(words))
    values = {k: v for k, v in parsed.items() if isinstance(v, str | bool | list | tuple)}
    for parameter in parser.params:
        value = values.get(parameter.name or "")
        assert value or not parameter.required, f"{command}: no {parameter.name}"
        if isinstance(parameter.type, click.Choice | Word) and value:
            for word in [value] if isinstance(value, str) else value:
                parameter.type.convert(word, parameter, context)
    if metrics := values.get("metrics"):
        names = [name for metric in metrics for name in matching(metric)]
        options = dict(word.split("=", 1) for word in values.get("options") or ())
        create(names, {"model": values.get("model") or ""}, options)
    match command.split()[1:3]:
        case ["data", "fetch"]:
            dataset(values["name"])
        case ["reproduce", _]:
            assert papers.tables(values["id"])


@pytest.mark.parametrize("here", ["nothing", "open data"])
def test_what_can_t_be_derived_names_what_is_missing_and_a_command_that_parses(
    here: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if here == "nothing":
        monkeypatch.setenv("LEVELFIELD_DATA", str(tmp_path))
    else:
        request.getfixturevalue("open_data")
    commands = set()
    for outcome in outcomes():
        gap = outcome.derived.gap
        assert (gap is not None) == (outcome.verdict is Verdict.CANNOT)
        if gap is not None:
            assert gap.what.strip(), outcome.number
            assert "{" not in gap.what + gap.command
            commands.add(gap.command)
    assert len(commands) > 30
    for command in sorted(commands):
        check(command)


@pytest.mark.slow
@pytest.mark.usefixtures("open_data")
def test_a_number_that_is_derived_lacks_nothing_in_print():
    assert not [o.number for o in outcomes() if o.verdict is not Verdict.CANNOT and o.number.gap]


def test_every_gap_of_a_paper_s_file_is_that_of_some_number():
    for name in PAPERS:
        used = {n.gap for t in read_paper(name).tables for n in t.numbers if n.gap}
        for table in read_toml(resources.files("levelfield_reproductions") / f"{name}.toml")[
            "tables"
        ]:
            for gap in table.get("gaps", ()):
                pattern = re.compile(re.sub(r"\\{\w+\\}", ".+", re.escape(gap["what"])))
                assert any(pattern.fullmatch(other.what) for other in used), gap


@pytest.mark.parametrize(
    "command",
    [
        "levelfield scores TEXTS.jsonl",
        "levelfield score TEXTS.jsonl --metrics bleu",
        "levelfield score TEXTS.jsonl --metric blew",
        "levelfield score TEXTS.jsonl --metric bleu --option model=x",
        "levelfield score --metric bleu",
        "levelfield data fetch lpff",
        "levelfield reproduce lpf.99",
    ],
)
def test_a_command_that_the_program_does_not_have_is_detected(command: str):
    with pytest.raises((AssertionError, click.ClickException, UserError)):
        check(command)


def test_a_gap_reads_as_a_sentence():
    gap = Gap("data_topic.txt", "levelfield data fetch ctrleval", ("data/data_topic.txt",))
    assert str(gap) == "missing: data_topic.txt (`levelfield data fetch ctrleval`)"
