"""What README, docs and examples show is true: snippets run, names are there, commands parse."""

from __future__ import annotations

import ast
import functools
import pkgutil
import re
import runpy
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import click
import pytest

from levelfield.cli import levelfield
from levelfield.cli.generate import generate
from levelfield.cli.score import score
from levelfield.core.options import Declaration, choices, parsed, underscored
from levelfield.core.registry import MetricFile, create, installed, matching, metric_class, options
from levelfield.generation.table import TECHNIQUES, TechniqueFile, technique_class
from levelfield.io.reading import pairs
from levelfield.metrics.judges import choose
from levelfield.scoring.options import TASKS
from levelfield.study.plan_file import load_plan
from levelfield.train.cdm.plan import load_cdm_plan
from levelfield.train.guide.table import SETTINGS
from levelfield_reproductions.convert import LAYOUTS

pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "levelfield").rglob("page.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    ROOT / "rating" / "README.md",
    ROOT / "reproductions" / "README.md",
]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
SCRIPTS = sorted(
    path for name in ("benchmarks", "examples", "tools") for path in (ROOT / name).rglob("*.py")
)
RUN = (
    "others-logs.md",
    "own-metric.md",
    "own-technique.md",
    "estimate.md",
    "strengths.md",
    "plan.md",
    pytest.param("README.md", marks=pytest.mark.slow),
)
"""Pages whose snippets need no file of the reader's."""


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def imported(code: str) -> Iterator[str]:
    """Everything of the package that Python code imports, as dotted names."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("levelfield"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("levelfield"))


def commands(page: Path) -> Iterator[list[str]]:
    """The lines of code that begin with `levelfield`, as words; up to a pipe or a redirection."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    for line in re.findall(r"^(?: {4,}|\$ )levelfield (.*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        ends = [i for i, word in enumerate(words) if word in ("|", ">", "&&", "&", "<")]
        yield words[: min(ends, default=len(words))]


@pytest.mark.parametrize("name", RUN)
def test_the_snippets_of_a_page_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    page = next(page for page in PAGES if page.name == name)
    module = ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)  # a dataclass looks its module up
    for code in snippets(page):
        exec(compile(code, name, "exec"), vars(module))


def test_what_snippets_and_scripts_import_is_there(subtests: pytest.Subtests):
    for page in (*PAGES, CONTRIBUTING, *SCRIPTS):
        with subtests.test(page=page.name):
            for code in snippets(page) if page.suffix == ".md" else [page.read_text("utf-8")]:
                for name in imported(code):
                    pkgutil.resolve_name(name)


def test_modules_and_files_that_a_page_names_are_there(subtests: pytest.Subtests):
    for page in (*PAGES, CONTRIBUTING):
        with subtests.test(page=page.name):
            text = page.read_text("utf-8")
            for name in re.findall(r"`(levelfield\.[a-z_]+\.[A-Za-z_.]+)[`(]", text):
                pkgutil.resolve_name(name)
            for name in re.findall(
                r"`((?:levelfield|tests|docs|examples|benchmarks)/[\w/.-]+)`", text
            ):
                assert (ROOT / name).exists(), name
            for link in re.findall(r"\]\(([\w/.-]+\.(?:md|toml|jsonl|cff))\)", text):
                assert (page.parent / link).exists(), link


def test_commands_that_a_page_shows_have_these_options(subtests: pytest.Subtests):
    for page in PAGES:
        with subtests.test(page=page.name):
            for words in commands(page):
                command: click.Command = levelfield
                context = click.Context(command, info_name="levelfield")
                while isinstance(command, click.Group) and words and not words[0].startswith("-"):
                    name, *words = words
                    inner = command.get_command(context, name)
                    assert inner is not None, f"{page.name}: levelfield {name}"
                    command, context = inner, click.Context(inner, context, info_name=name)
                command.make_parser(context).parse_args(list(words))


def scorings(page: Path) -> Iterator[tuple[list[str], dict[str, str], dict[str, object]]]:
    """The metrics of every `levelfield score` that a page shows, their options, all words."""
    context = click.Context(score, info_name="score")
    for command, *words in commands(page):
        if command == "score":
            said, _, _ = context.command.make_parser(context).parse_args(list(words))
            named = [*said.get("metrics", ()), *(TASKS[t].metrics for t in [said.get("task")] if t)]
            names = [name for word in flat(named) for name in members(page, word)]
            yield names, pairs("--option", said.get("options", ())), said


def flat(words: Iterable[str | Sequence[str]]) -> Iterator[str]:
    for word in words:
        yield from [word] if isinstance(word, str) else word


def members(page: Path, word: str) -> tuple[str, ...]:
    """The metrics of a word; those of the page's own snippets are no installed ones."""
    if MetricFile.parse(word):
        assert f"class {word.rpartition(':')[2]}" in "".join(snippets(page)), word
        return ()
    return matching(word)


def test_metrics_and_options_of_a_page_belong_together_and_do_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
):
    monkeypatch.chdir(tmp_path)
    for page in PAGES:
        with subtests.test(page=page.name):
            check_scorings(page)


def check_scorings(page: Path) -> None:
    for names, words, said in scorings(page):
        if not names:
            continue
        for file in re.findall(r"[\w-]+\.toml", " ".join(words.values())):
            Path(file).write_text("".join(tables(page)), encoding="utf-8")
        model = {"model": said["model"]} if said.get("model") else {}
        made = create(names, model, words)  # says which option none of them has
        assert said.get("model") is None or any("model" in options(metric_class(n)) for n in names)
        for word, text in words.items():
            option = word.rpartition(":")[2]
            changed = [
                functools.reduce(getattr, options(type(metric))[option].path, metric)
                != options(type(metric))[option].default
                for metric in made
                if option in options(type(metric))
            ]
            assert any(changed), f"{page.name}: {word}={text} is what {names} do without it"


def test_techniques_that_a_page_generates_with_have_these_options(subtests: pytest.Subtests):
    for page in PAGES:
        with subtests.test(page=page.name):
            context = click.Context(generate, info_name="generate")
            for command, *words in commands(page):
                if command == "generate":
                    said, _, _ = context.command.make_parser(context).parse_args(list(words))
                    named = {n: said[n] for n in ("model", "guide") if said.get(n)}
                    options = {**named, **underscored(pairs("--option", said.get("options", ())))}
                    if file := TechniqueFile.parse(said["technique"]):
                        assert f"class {file.cls}" in "".join(snippets(page)), file
                        continue
                    known = choices(technique_class(said["technique"]))
                    assert options.keys() <= known.keys(), f"{page.name}: {options}"
                    parsed(said["technique"], known, options)


def test_options_that_a_sentence_names_are_there(subtests: pytest.Subtests):
    for page in PAGES:
        with subtests.test(page=page.name):
            text = " ".join(page.read_text("utf-8").split())
            known = options_of_all()
            for word in re.findall(r"`[^`]*?(?:--option|-o) ([\w.:-]+)=[^`]*`", text):
                whose, _, option = min(underscored({word: ""})).rpartition(":")
                having = [n for n, o in known.items() if option in o or option == "NAME"]
                of_the_page = f"    {option}: " in "".join(snippets(page))
                fitting = [not whose or n == whose or n.startswith(f"{whose}.") for n in having]
                assert of_the_page or any(fitting), word


@functools.cache
def options_of_all() -> dict[str, dict[str, Declaration]]:
    of_metrics = {name: options(metric_class(name)) for name in installed()}
    of_layouts = {
        f"convert {name}": choices(pkgutil.resolve_name(layout.target).options)
        for name, layout in LAYOUTS.items()
    }
    of_techniques = {name: choices(technique_class(name)) for name in TECHNIQUES}
    of_guides = {f"guide {kind}": choices(cls) for kind, cls in SETTINGS.items()}
    return of_metrics | of_layouts | of_techniques | of_guides


def tables(page: Path) -> list[str]:
    """The blocks of TOML on a page."""
    text = page.read_text("utf-8")
    return re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_tables_of_options_are_those_of_the_declarations():
    tables_of = runpy.run_path(str(ROOT / "tools" / "option_tables.py"))["updated"]
    stale = [page.name for page in PAGES if tables_of(text := page.read_text("utf-8")) != text]
    assert stale == [], "run: python tools/option_tables.py"


def test_every_row_of_a_table_follows_its_head_and_has_its_columns():
    """A blank line in a table ends it, and the rest is shown as text."""
    broken = []
    for page in [*PAGES, CONTRIBUTING, ROOT / "CHANGELOG.md"]:
        prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for table in re.findall(r"(?:^\|.*\n)+", prose, re.MULTILINE):
            rows = table.splitlines()
            widths = {len(re.split(r"(?<!\\)\|", row)) for row in rows}
            if len(widths) > 1 or not re.fullmatch(r"[|\s:-]+", "".join(rows[1:2])):
                broken.append((page.name, rows[0]))
    assert broken == []


def test_keys_of_study_files_that_the_page_shows_are_read(tmp_path: Path):
    whole, controls, command, techniques, budgets, labels = tables(DOCS / "study-file.md")
    top, _, rest = whole.partition("[controls.sentiment]")
    sentiment, _, systems = rest.partition("[[systems]]")
    system = systems.replace("[[systems]]", "").split("command")[0]
    for text in (
        whole,
        techniques,
        f"{top}[controls.sentiment]{sentiment}{controls}[[systems]]{systems}",
        f"{top}[controls.sentiment]{sentiment}[[systems]]{system}{command}",
        f"{top}{controls}[[systems]]{systems}{labels}",
    ):
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        load_plan(tmp_path / "study.toml")
    (tmp_path / "study.toml").write_text(budgets, encoding="utf-8")
    load_plan(tmp_path / "study.toml", strengths=False)


def test_files_of_judges_and_templates_that_pages_show_are_read(tmp_path: Path):
    (judges,) = tables(DOCS / "judges.md")
    (tmp_path / "judges.toml").write_text(judges, encoding="utf-8")
    assert len(choose(str(tmp_path / "judges.toml"))) == judges.count("[[judges]]")
    (template,) = tables(DOCS / "llm-judge.md")
    (tmp_path / "politeness.toml").write_text(template, encoding="utf-8")
    create(["llm-judge.overall"], {}, {"template": str(tmp_path / "politeness.toml")})
    (plan,) = tables(DOCS / "cdm.md")
    (tmp_path / "plan.toml").write_text(plan, encoding="utf-8")
    (tmp_path / "dialogues.txt").write_text("A: Hi.\n", encoding="utf-8")
    load_cdm_plan(tmp_path / "plan.toml")
