"""Outputs never take the place of what is read, of a study, or of a file of another kind."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from command_line import Run, Write
from levelfield.cli import levelfield
from levelfield.cli.outputs import InputType, OutputType, Writing
from levelfield.io.outputs import KINDS
from levelfield_rating.export.documents import documents
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.store import RatingStore

WORDS = {
    *(
        "--aspect",
        "--attribute",
        "--base-path",
        "--by",
        "--content",
        "--control",
        "--corpus-by",
        "--label-name",
    ),
    *(
        "--device",
        "--direction",
        "--engine",
        "--encoder",
        "--format",
        "--guide",
        "--high",
        "--host",
        "--judge",
        "--kinds",
        "--label",
        "--language",
        "--low",
        "--lower-is-better",
    ),
    *("--map", "--metric", "--model", "--only", "--option", "--part", "--rating", "--recipe"),
    *(
        "--source",
        "--start",
        "--system",
        "--technique",
        "--tokenizer",
        "--url",
        "--vocabulary",
        "--without",
    ),
    "--tried-by",
    "--margin",
    *("id", "name", "rater"),
}
"""Options and arguments whose value names no file that a command opens for writing or protects."""

RATED = [
    {"id": str(i), "aspect": "content", "rater": rater, "value": (i * k) % 5}
    for i in range(6)
    for k, rater in enumerate("ab", 2)
]
TEXTS = [{"id": "1", "text": "a b c"}, {"id": "2", "text": "d e"}]


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        elif command:
            yield " ".join((*path, name)), command


ALL = dict(commands(levelfield))


@pytest.mark.parametrize("name", ALL)
def test_every_option_that_takes_a_string_is_an_input_an_output_or_a_word(name: str) -> None:
    strings = [
        param
        for param in ALL[name].params
        if isinstance(param.type, click.types.StringParamType | click.Path | click.File)
    ]
    undeclared = {
        param.opts[0]
        for param in strings
        if not isinstance(param.type, InputType | OutputType) and param.opts[0] not in WORDS
    }
    assert not undeclared, "give it the type INPUT or OutputType(kind); a word goes into WORDS here"


@pytest.mark.parametrize("name", ALL)
def test_every_command_with_an_output_checks_it_before_it_starts(name: str) -> None:
    command = ALL[name]
    if any(isinstance(param.type, OutputType) for param in command.params):
        assert isinstance(command, Writing)


def test_every_kind_of_an_output_is_known() -> None:
    types = [param.type for command in ALL.values() for param in command.params]
    outputs = [type for type in types if isinstance(type, OutputType)]
    assert {kind for out in outputs for kind in (out.kind, *out.files.values())} <= {"", *KINDS}


def test_outputs_of_all_commands_are_known() -> None:
    outputs = {
        f"{name} {param.opts[0]}"
        for name, command in ALL.items()
        for param in command.params
        if isinstance(param.type, OutputType)
    }
    assert outputs >= {
        *("score --out", "score --parts", "score --report", "correlate --latex"),
        *("correlate --report", "agreement --zscores", "study report --out"),
        *("study export --texts", "study export --scores", "rate links --csv", "rate export --out"),
        *(
            "rate backup target",
            "rate init folder",
            "data fetch --out",
            "environment create --path",
        ),
        *("train iwf --out", "train unigram --out", "train pooler --out", "train perturb --out"),
        *("train infiller --out", "train discriminator --out", "train judge --out"),
        *("train cdm --out", "data fetch --out", "generate --out"),
    }


@pytest.fixture
def rated(run: Run, here: Path) -> Path:
    """The study that `init` writes, with its store."""
    assert run("rate", "init", "study").code == 0
    file = here / "study" / "STUDY.toml"
    RatingStore.create(file.with_suffix(".sqlite"), freeze(file)).close()
    return file


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("STUDY.sqlite", "a database (SQLite)"),
        ("STUDY.toml", "is also an input"),
        ("rewrites.jsonl", "is also an input"),
    ],
)
def test_links_never_take_the_place_of_the_store_the_study_file_or_its_samples(
    run: Run, rated: Path, force: tuple[str, ...], file: str, problem: str
) -> None:
    before = contents(rated.parent)
    ran = run("rate", "links", rated, "--csv", rated.parent / file, *force)
    assert problem in ran.complaint
    assert contents(rated.parent) == before


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_export_never_goes_into_the_folder_of_a_study(
    run: Run, write: Write, rated: Path, force: tuple[str, ...]
) -> None:
    folder = rated.parent
    (folder / "rewrites.jsonl").rename(folder / "ratings.jsonl")
    rated.write_text(rated.read_text().replace("rewrites.jsonl", "ratings.jsonl"))
    before = contents(folder)
    said = run("rate", "export", rated, "--out", folder, *force).complaint
    assert "name a separate folder" in said
    assert contents(folder) == before

    write("elsewhere/ratings.jsonl", (folder / "ratings.jsonl").read_bytes())
    (folder / "ratings.jsonl").unlink()
    rated.write_text(rated.read_text().replace("ratings.jsonl", "../elsewhere/ratings.jsonl"))
    assert "an input" in run("rate", "export", rated, "--out", "elsewhere", *force).complaint


def test_an_export_is_repeated_and_overwrites_files_of_others_only_by_force(
    run: Run, write: Write, rated: Path
) -> None:
    words = ("rate", "export", rated, "--out", "results")
    assert run(*words).code == 0
    assert run(*words).code == 0
    write("results/ratings.csv", "my,own,table\n")
    said = run(*words).complaint
    assert said.startswith("--out results/ratings.csv: holds a table with the fields")
    assert "--force" in said
    assert run(*words, "--force").code == 0


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_export_does_not_write_through_links_into_a_study(
    run: Run, rated: Path, here: Path, force: tuple[str, ...]
) -> None:
    before = contents(rated.parent)
    for name in before:
        results = here / f"results of {name}"
        results.mkdir()
        (results / "ratings.csv").symlink_to(rated.parent / name)
        assert run("rate", "export", rated, "--out", results, *force).code == 2
    assert contents(rated.parent) == before


def test_a_file_is_an_input_under_its_other_names_as_well(run: Run, write: Write) -> None:
    file = write("ratings.jsonl", RATED)
    Path("hard").hardlink_to(file)
    Path("soft").symlink_to(file)
    for name in ("hard", "soft"):
        assert "is also an input" in run("agreement", file, "--zscores", name, "--force").complaint


def test_all_files_of_an_export_are_declared(rated: Path) -> None:
    (out,) = (p.type for p in ALL["rate export"].params if isinstance(p.type, OutputType))
    store = RatingStore.open(rated.with_suffix(".sqlite"), read_only=True)
    assert set(documents(store)) | {"pairs.jsonl", "rankings.jsonl"} == set(out.files)
    store.close()


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_z_scores_never_take_the_place_of_the_ratings(
    run: Run, write: Write, force: tuple[str, ...]
) -> None:
    file = write("ratings.jsonl", RATED)
    said = run("agreement", file, "--zscores", f"./{file}", *force).complaint
    assert said == "--zscores ./ratings.jsonl: is also an input; name another"


def test_a_file_of_another_kind_goes_only_by_force(run: Run, write: Write) -> None:
    ratings, others = write("ratings.jsonl", RATED), write("others.jsonl", RATED)
    words = ("agreement", ratings, "--zscores", others)
    said = run(*words).complaint
    assert said == (
        "--zscores others.jsonl: holds ratings, not z-scores; name another file, or overwrite it "
        "with --force"
    )
    assert run(*words, "--force").code == 0
    assert run(*words).code == 0  # over its own earlier output


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("dear diary\n", id="text"),
        pytest.param(b"\x89PNG\0\0\xff", id="binary"),
        pytest.param(json.dumps(TEXTS[0]) + "\n", id="samples"),
        pytest.param("<!doctype html>\n<p>My page", id="page"),
        pytest.param('{\n "a": 1\n}\n', id="json"),
        pytest.param("id,text\n1,a\n", id="csv"),
    ],
)
@pytest.mark.parametrize("option", ["--out", "--parts", "--report"])
def test_score_overwrites_no_other_file(
    run: Run, write: Write, words: str, option: str, content: str | bytes
) -> None:
    file = write("t.jsonl", TEXTS)
    there = Path(write("there", content)).read_bytes()
    assert "--force" in run("score", file, "-m", words, option, "there").complaint
    assert Path("there").read_bytes() == there
    assert run("score", file, "-m", words, option, "there", "--force").code == 0
    assert Path("there").read_bytes() != there


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("name", ["notes.toml", "notes"])
def test_settings_and_databases_are_never_overwritten(
    run: Run, write: Write, words: str, force: tuple[str, ...], name: str
) -> None:
    file = write("t.jsonl", TEXTS)
    write(name, "# mine\n[table]\na = 1\n")
    assert "TOML" in run("score", file, "-m", words, "--out", name, *force).complaint
    with sqlite3.connect("any") as db:
        db.execute("CREATE TABLE t (a)")
    assert "SQLite" in run("score", file, "-m", words, "--report", "any", *force).complaint


@pytest.mark.parametrize("content", ["\ufeff[table]\n", "[table]\n" + "# long\n" * 200_000])
def test_settings_are_known_whatever_editor_wrote_them_and_however_long(
    run: Run, write: Write, words: str, content: str
) -> None:
    file = write("t.jsonl", TEXTS)
    write("notes", content + "a = 1\n")
    assert "TOML" in run("score", file, "-m", words, "--out", "notes", "--force").complaint


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_what_a_study_beside_it_names_and_the_files_of_a_cell_are_never_overwritten(
    run: Run, write: Write, words: str, force: tuple[str, ...]
) -> None:
    file = write("t.jsonl", TEXTS)
    write("s/study.toml", '[[systems]]\nname = "a"\nfiles = "texts/{seed}.jsonl"\n')
    write("s/texts/1.jsonl", TEXTS)
    said = run("score", file, "-m", words, "--out", "s/texts/1.jsonl", *force).complaint
    assert "named by study.toml" in said
    write("settings.toml", 'out = "s.jsonl"\n')  # of no study
    for _ in range(2):
        assert run("score", file, "-m", words, "--out", "s.jsonl", *force).code == 0
    write("s/notes.txt", "mine\n")
    said = run("score", file, "-m", words, "--out", "s/notes.txt", *force).complaint
    assert "is next to study.toml of a study" in said
    write("s/study.study/a/b/cell.json", "{}")
    cell = "s/study.study/a/b/scores.jsonl"
    assert "study's cell" in run("score", file, "-m", words, "--out", cell, *force).complaint


def test_a_text_in_a_study_file_that_begins_with_a_tilde_is_no_path(run: Run, write: Write):
    write("study.toml", '[[systems]]\nname = "a"\nfiles = "~nobody-here/x"\nnote = "~ so"\n')
    write("a.jsonl", '{"text": "The lake."}\n')
    for _ in range(2):
        ran = run("score", "a.jsonl", "-m", "diversity.distinct-1", "--out", "s.jsonl")
        assert ran.code == 0, ran


@pytest.mark.parametrize(
    "words",
    [
        ("score", "a.jsonl", "-m", "diversity.distinct-1", "--out", "~nobody-here/s.jsonl"),
        ("score", "a.jsonl", "-m", "composite.coherence", "-o", "scales=~nobody-here/s.toml"),
        ("score", "a.jsonl", "-m", "control", "-o", "judges=~nobody-here/j.toml"),
        ("score", "hf:~nobody-here/x"),
        ("score", "~nobody-here/x.jsonl"),
        ("study", "report", "~nobody-here/study.toml"),
    ],
)
def test_a_home_of_nobody_is_the_users_mistake(run: Run, write: Write, words: tuple[str, ...]):
    write("a.jsonl", '{"text": "The lake.", "control": {"sentiment": "positive"}}\n')
    assert "~nobody-here" in run(*words).complaint


@pytest.mark.parametrize("name", ["log", "~/log"])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_file_that_an_option_names_is_an_input_as_well(
    run: Run,
    write: Write,
    words: str,
    force: tuple[str, ...],
    name: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(here))
    file = write("t.jsonl", TEXTS)
    write("log", "kept\n")
    said = run("score", file, "-m", words, "-o", f"log={name}", "--out", "log", *force).complaint
    assert said == "--out log: is also an input; name another"
    assert Path("log").read_text() == "kept\n"


def test_a_file_in_a_folder_that_is_read_goes_not_even_by_force(
    run: Run, write: Write, words: str
) -> None:
    file = write("t.jsonl", TEXTS)
    Path("model").mkdir()
    config = Path("model/config.json")
    config.write_text("{}")
    ran = run("score", file, "-m", words, "--model", "model", "--out", config, "--force")
    assert "is in a folder that is an input" in ran.complaint
    assert config.read_text() == "{}"


def test_what_is_a_folder_or_a_store_can_not_be_standard_output(run: Run, rated: Path) -> None:
    assert run("rate", "backup", rated, "-").complaint.startswith(
        "FILE -: can't be standard output"
    )
    exported = run("rate", "export", rated, "--out", "-")
    assert exported.complaint.startswith("--out -: can't be standard output")
    assert not Path("-").exists()


def test_score_says_which_scores_are_lost_before_it_starts(
    run: Run, write: Write, words: str
) -> None:
    file = write("t.jsonl", TEXTS)
    assert "note:" not in run("score", file, "-m", words).err
    assert "note:" not in run("score", file, "-m", words).err
    signature = json.loads(Path("scores.jsonl").read_text().splitlines()[0])["signature"]
    assert "note:" not in run("score", file, "-m", words, "-m", "diversity.distinct-1").err
    said = run("score", file, "-m", "diversity.distinct-2").err
    assert "scores.jsonl is overwritten" in said
    assert f"{words} ({signature})" in said
    assert "diversity.distinct-1" in said
    with Path("scores.jsonl").open("a") as scores:
        scores.write("[" * 100_000)
    assert "mistake" not in run("score", file, "-m", words).err
