"""A study file of the rating app as data: TOML in, what it says out, and all that is wrong with it.

What a study file may say is documented in `docs/rating-study-file.md`.
"""

from __future__ import annotations

import os
import secrets
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from levelfield.core.errors import UserError
from levelfield.io.problems import Wrong, listed, printable, shown
from levelfield.io.records import Rules
from levelfield.io.toml import TomlTable, read_toml, suggestion, toml_kind
from levelfield.rating.model import (
    SLIDER,
    Criterion,
    Design,
    Part,
    Practice,
    ScaleKind,
    Words,
    WorkedExample,
)
from levelfield.rating.negatives import KINDS, Kind
from levelfield.rating.units import Show, is_language, part

T = TypeVar("T")

DESIGNS: tuple[Design, ...] = get_args(Design)
FAIL_RULES = ("not-lowest", "none")
SCALES: Mapping[Design, tuple[ScaleKind, ...]] = {
    "direct": ("slider", "likert"),
    "pairwise": ("pairwise",),
    "ranking": ("ranking",),
}
"""The scales that answer each design's questions."""

POINTS = (2, 11)
"""Of a Likert scale, least and most."""

PLACES = {"first": 0, "second": 1, "neither": -1}
"""How a study file names the answers to a pair."""

_SHOWABLE = ("source", "prompt", "context")
_ID_CHARACTERS = frozenset(string.ascii_letters + string.digits + "-_.")
_LONGEST_ID = 60
_OPAQUE_BYTES = 12


@dataclass(frozen=True)
class StudyFile:
    """What a study file says.

    Attributes:
        file: the file; paths in it are relative to its folder.
        samples: files of samples.
        mapping, ids: as for `open_samples`.
        show: what raters see of a sample.
        attribute: of the control, that gives the direction; empty for none.
        tasks: by direction, or the one task at `""`. Templates: `{topic}` is what the control
            wants of the topic.
        pairs_with: a system that stands in every pair; empty for all pairs.
        negatives: negative samples a survey.
        texts: files that words are in.

    The others are as in `Frozen`.
    """

    file: Path
    id: str
    version: int
    title: str
    language: str
    contact: str
    duration: str
    samples: tuple[Path, ...]
    mapping: Mapping[str, str]
    ids: Literal["given", "file"]
    show: Show
    attribute: str
    tasks: Mapping[str, str]
    design: Design
    surveys: int
    raters: int
    seed: int
    pairs_with: str
    criteria: tuple[Criterion, ...]
    negatives: int
    negative_kind: Kind
    fail_rule: Literal["not-lowest", "none"]
    words: Words
    consent_version: str
    examples: tuple[WorkedExample, ...]
    practice: tuple[Practice, ...]
    completion: str
    completion_url: str
    texts: tuple[Path, ...] = ()


def read_study(path: str | os.PathLike[str]) -> tuple[StudyFile, tuple[str, ...]]:
    """What a study file says, and what is wrong with it; samples are not read.

    Raises:
        UserError: there is no such file, or it is not TOML.
    """
    name = printable(os.fspath(path))
    file = Path(path).absolute()
    problems: list[str] = []
    top = TomlTable(read_toml(file, name, mend="name a study file"), "", problems)
    language = _language(top, "language", "en")
    show = _show(top, language)
    design_table = top.table("design")
    design = _choice(design_table, "kind", DESIGNS, "direct")
    surveys = _from_one(design_table, "surveys", 1)
    raters = _from_one(design_table, "raters", 2)
    seed = design_table.whole("seed", 1)
    pairs_with = _pairs_with(design_table, design)
    design_table.finish(elsewhere=_MISPLACED)
    criteria = _criteria(top, design)
    attribute = top.text("direction", '"formality"', default="")
    tasks = _tasks(top, attribute)
    controls = top.table("controls")
    negatives = controls.whole("negative", 0)
    negative_kind = cast(Kind, _choice(controls, "kind", KINDS, "auto"))
    rule = _choice(controls, "rule", FAIL_RULES, "not-lowest")
    if rule == "not-lowest" and "rule" in controls and not negatives:
        controls.wrong_field("rule", "there is no negative sample to judge by; say negative = 1")
    controls.finish(elsewhere=_MISPLACED)
    words, texts = _words(top, file.parent)
    completion = top.table("completion")
    code = completion.text("code", '"random" or "C1A2B3"', default="random")
    url = _url(completion)
    completion.finish(elsewhere=_MISPLACED)
    study = StudyFile(
        file=file,
        id=_id(top, "id", '"formality"'),
        version=_from_one(top, "version", 1),
        title=top.text("title", '"Formal and informal"'),
        language=language,
        contact=top.text("contact", '"ratings@example.org"', default=""),
        duration=top.text("duration", '"about 40 minutes"', default=""),
        samples=_files(top, file.parent),
        mapping=_mapping(top),
        ids=_choice(top, "ids", ("given", "file"), "given"),
        show=show,
        attribute=attribute,
        tasks=tasks,
        design=design,
        surveys=surveys,
        raters=raters,
        seed=seed,
        pairs_with=pairs_with,
        criteria=criteria,
        negatives=negatives,
        negative_kind=negative_kind,
        fail_rule="none" if rule == "none" or not negatives else "not-lowest",
        words=words,
        consent_version=top.text("consent_version", '"1"', default="1"),
        examples=_examples(top, design, criteria, show, tasks),
        practice=_practice(top, design, criteria, show, tasks),
        completion=code,
        completion_url=url,
        texts=texts,
    )
    top.finish()
    return study, tuple(problems)


_MISPLACED = dict.fromkeys(
    (
        *("id", "version", "title", "language", "contact", "duration", "consent_version"),
        *("samples", "map", "ids", "show", "direction", "task"),
    ),
    "belongs to the whole study; write it above the first [table] of the file",
)
"""Keys that TOML takes for part of the table above them."""


def _choice(table: TomlTable, key: str, known: Sequence[T], default: T) -> T:
    value = table.take(key)
    if value is None:
        return default
    for name in known:
        if value == name:
            return name
    hint = (
        suggestion(value, map(str, known))
        if isinstance(value, str)
        else f"there are {listed(known)}"
    )
    table.wrong_field(key, f"found {toml_kind(value)}; {hint}")
    return default


def _from_one(table: TomlTable, key: str, default: int) -> int:
    n = table.whole(key, default)
    if n < 1:
        table.wrong_field(key, "expected a whole number from 1 on; found 0")
    return max(n, 1)


def _id(table: TomlTable, key: str, example: str) -> str:
    """A word that is fit for files and columns."""
    word = table.text(key, example)
    if word and (set(word) - _ID_CHARACTERS or len(word) > _LONGEST_ID or word[0] in "-."):
        table.wrong_field(
            key,
            f"{shown(word)}: expected up to {_LONGEST_ID} letters a to z, digits, - _ and ., "
            f"such as {example}",
        )
    return word


def _language(table: TomlTable, key: str, default: str) -> str:
    tag = table.text(key, '"en"', default=default)
    if not is_language(tag):
        table.wrong_field(
            key, f"expected the tag of a language, such as en or pt-BR; found {toml_kind(tag)}"
        )
        return default
    return tag


def _url(table: TomlTable) -> str:
    url = table.text("url", '"https://example.org/done?code={code}"', default="")
    if url and not url.startswith(("https://", "http://")):
        table.wrong_field(
            "url", f"expected an address that begins with https://; found {shown(url)}"
        )
        return ""
    if url and any(c.isspace() or not c.isprintable() for c in url):
        table.wrong_field("url", "an address has no blanks")
        return ""
    return url


def _files(top: TomlTable, folder: Path) -> tuple[Path, ...]:
    example = '["rewrites.jsonl"]'
    names = top.texts("samples", example)
    if names is None:
        if "samples" not in top:
            top.wrong_field(
                "samples", f"expected a list of files, such as {example}; there is none"
            )
        return ()
    files = []
    for n, name in enumerate(names, 1):
        file = folder / Path(name).expanduser()
        if not file.is_file():
            why = "is a folder" if file.is_dir() else "there is no such file"
            top.wrong_field(f"samples[{n}]", f"{shown(name)}: {why}, seen from the study file")
        else:
            files.append(file)
    return tuple(files) if len(files) == len(names) else ()


def _mapping(top: TomlTable) -> dict[str, str]:
    given = top.table("map")
    mapping = {ours: given.text(ours, '"output"') for ours in given}
    for ours, theirs in mapping.items():
        try:
            Rules({ours: theirs})
        except UserError as error:
            given.wrong_field(ours, str(error))
    return mapping


def _show(top: TomlTable, language: str) -> Show:
    given = top.take("show")
    fields: tuple[str, ...] = ("source",)
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        fields = tuple(given)
        for name in fields:
            if name not in _SHOWABLE:
                top.wrong_field("show", f"can't show {shown(name)}; {suggestion(name, _SHOWABLE)}")
        if len(set(fields)) < len(fields):
            top.wrong_field("show", "names a field twice")
    elif given is not None:
        top.wrong_field("show", f'expected a list, such as ["source"]; found {toml_kind(given)}')
    names = top.table("names")
    default = Show()
    speakers = default.speakers
    if isinstance(names.take("context"), list):
        speakers = names.texts("context", '["A", "B"]') or speakers
    elif "context" in names:
        speakers = (names.text("context", '["A", "B"]', default="A"),)
    show = Show(
        fields=fields,
        source=names.text("source", '"Original"', default=default.source),
        prompt=names.text("prompt", '"Beginning"', default=default.prompt),
        text=names.text("text", '"Rewritten"', default=default.text),
        speakers=speakers,
        language=language,
    )
    names.finish(elsewhere=_MISPLACED)
    return show


def _pairs_with(table: TomlTable, design: Design) -> str:
    pairs = table.text("pairs", '"all" or "with:baseline"', default="all")
    if "pairs" in table and design != "pairwise":
        table.wrong_field("pairs", 'goes with kind = "pairwise" only')
    if pairs == "all":
        return ""
    kind, _, system = pairs.partition(":")
    if kind != "with" or not system:
        table.wrong_field("pairs", f'expected "all" or "with:SYSTEM"; found {toml_kind(pairs)}')
    return system


def _tasks(top: TomlTable, attribute: str) -> dict[str, str]:
    tasks = {}
    one = top.text("task", '"Make it formal."', default="")
    if one:
        tasks[""] = one
    given = top.table("tasks")
    for direction in given:
        tasks[direction] = given.text(direction, '"Make it formal."')
    if one and len(tasks) > 1:
        top.wrong_field("task", "there are [tasks] as well; say one of the two")
    elif len(tasks) > 0 and not one and not attribute:
        given.wrong('goes with direction = "ATTRIBUTE", whose values the tasks are for')
    for direction, template in tasks.items():
        try:
            blanks_of(template)
        except Wrong as wrong:
            top.wrong(f"tasks: {printable(direction)}: {wrong}" if direction else f"task: {wrong}")
    return tasks


def blanks_of(template: str) -> list[str]:
    """The attributes that a task is filled in from.

    Raises:
        Wrong: it is no template.
    """
    try:
        fields = [parts[1:] for parts in string.Formatter().parse(template)]
    except ValueError as error:
        raise Wrong(f"{error} in {shown(template)}; write a brace as such twice") from None
    names = [(name, form or conversion) for name, form, conversion in fields if name is not None]
    for name, more in names:
        if not name or more or set(name) & set(".["):
            raise Wrong(f"can't fill in {shown(template)}; say {{attribute}}")
    return [name for name, _ in names]


def _criteria(top: TomlTable, design: Design) -> tuple[Criterion, ...]:
    criteria = []
    example = '[[criteria]] id = "content"'
    for table in top.list_of_tables("criteria", example):
        scale = _choice(table, "scale", get_args(ScaleKind), SCALES[design][0])
        if scale not in SCALES[design]:
            table.wrong_field(
                "scale",
                f"{scale} is no scale of a {design} design; there are {listed(SCALES[design])}",
            )
        points = table.whole("points", 5)
        if "points" in table and scale != "likert":
            table.wrong_field("points", "only a likert scale has points")
        elif not POINTS[0] <= points <= POINTS[1]:
            table.wrong_field("points", f"expected {POINTS[0]} to {POINTS[1]}; found {points}")
        labels = table.texts("labels", '["poor", "fair", "good"]') or ()
        if labels and scale != "likert":
            table.wrong_field("labels", "only the points of a likert scale have labels")
        elif labels and len(labels) != points:
            table.wrong_field("labels", f"{len(labels)} labels for {points} points; label each")
        criteria.append(
            Criterion(
                id=_id(table, "id", '"content"'),
                title=table.text("title", '"Content"'),
                statement=table.text("statement", '"Both texts say the same."'),
                scale=scale,
                low=table.text("low", '"disagree"', default=""),
                high=table.text("high", '"agree"', default=""),
                points=points,
                labels=labels,
                help=table.text("help", '"Compare names and numbers."', default=""),
            )
        )
        table.finish(elsewhere=_MISPLACED)
    for id, n in Counter(criterion.id for criterion in criteria).items():
        if id and n > 1:
            top.wrong_field("criteria", f"{n} have the id {shown(id)}; ids are unique")
    return tuple(criteria)


def _words(top: TomlTable, folder: Path) -> tuple[Words, tuple[Path, ...]]:
    given = top.table("words")
    pages: dict[str, str] = {}
    files: list[Path] = []
    for page in ("welcome", "consent", "instructions", "thanks"):
        value = given.take(page)
        if isinstance(value, Mapping):
            inner = given.table(page)
            name = inner.text("file", '"consent.md"')
            inner.finish()
            file = folder / Path(name).expanduser()
            try:
                pages[page] = file.read_bytes().decode("utf-8-sig") if name else ""
                files += [file] if name else []
            except OSError as error:
                inner.wrong_field("file", f"{shown(name)} can't be read: {error.strerror}")
            except UnicodeDecodeError:
                inner.wrong_field("file", f"{shown(name)} is not UTF-8")
        else:
            pages[page] = given.text(page, '"Welcome." or { file = "welcome.md" }', default="")
    given.finish(elsewhere=_MISPLACED)
    return Words(**pages), tuple(files)


def _shown_of(
    table: TomlTable, design: Design, show: Show, tasks: Mapping[str, str]
) -> tuple[tuple[Part, ...], tuple[Part, ...], str, str]:
    """Given parts, texts, task and direction of an example or a practice item."""
    language = _language(table, "language", show.language)
    values = {name: table.text(name, '"It rains."', default="") for name in ("source", "prompt")}
    turns = table.texts("context", '["Hello!", "Hi."]') or ()
    given: list[Part] = []
    for name in ("source", "prompt"):
        if values[name] and name not in show.fields:
            table.wrong_field(name, f'is not shown; say show = ["{name}"] for the whole study')
    if turns and "context" not in show.fields:
        table.wrong_field("context", 'is not shown; say show = ["context"] for the whole study')
    for name in show.fields:
        if name == "context":
            speakers = show.speakers
            given += [part(speakers[n % len(speakers)], t, language) for n, t in enumerate(turns)]
        elif values.get(name):
            above = show.source if name == "source" else show.prompt
            given.append(part(above, values[name], language))
    texts: tuple[str, ...] = ()
    if design == "direct":
        texts = (table.text("text", '"Rain is expected."'),)
    else:
        texts = table.texts("texts", '["Rain is expected.", "It will rain."]') or ()
        wants = "two" if design == "pairwise" else "at least two"
        if len(texts) < 2 or (design == "pairwise" and len(texts) > 2):
            table.wrong_field("texts", f"expected {wants} texts; found {len(texts)}")
    direction = table.text("direction", '"formal"', default="")
    if direction and tasks and not {direction, ""} & tasks.keys():
        table.wrong_field(
            "direction", f"no task is for {shown(direction)}; {suggestion(direction, tasks)}"
        )
    task = table.text("task", '"Make it formal."', default="")
    template = tasks.get(direction, tasks.get("", ""))
    if not task and "{" not in template:
        task = template
    elif not task:
        table.wrong_field("task", f"{shown(template)} can't be filled in here; say the task")
    return tuple(given), tuple(part(show.text, text, language) for text in texts), task, direction


def _examples(
    top: TomlTable,
    design: Design,
    criteria: Sequence[Criterion],
    show: Show,
    tasks: Mapping[str, str],
) -> tuple[WorkedExample, ...]:
    if "examples" not in top:
        top.take("examples")
        return ()
    examples = []
    for table in top.list_of_tables("examples", '[[examples]] text = "Rain is expected."'):
        given, candidates, task, direction = _shown_of(table, design, show, tasks)
        answers = table.table("answers")
        said = {}
        for criterion in answers:
            said[criterion] = answers.text(criterion, '"high: nothing is missing"')
            _known(answers, criterion, criteria)
        why = table.text("why", '"Nothing is missing."', default="")
        table.finish(elsewhere=_MISPLACED)
        examples.append(WorkedExample(given, candidates, task, direction, said, why))
    return tuple(examples)


def _known(table: TomlTable, criterion: str, criteria: Sequence[Criterion]) -> Criterion | None:
    ids = {c.id: c for c in criteria}
    if criterion not in ids:
        table.wrong_field(criterion, f"there is no such criterion; {suggestion(criterion, ids)}")
    return ids.get(criterion)


def _practice(
    top: TomlTable,
    design: Design,
    criteria: Sequence[Criterion],
    show: Show,
    tasks: Mapping[str, str],
) -> tuple[Practice, ...]:
    if "practice" not in top:
        top.take("practice")
        return ()
    items = []
    for table in top.list_of_tables("practice", '[[practice]] text = "Rain is expected."'):
        given, candidates, task, _ = _shown_of(table, design, show, tasks)
        accept = table.table("accept")
        ranges = {}
        for name in accept:
            value = accept.take(name)
            criterion = _known(accept, name, criteria)
            if criterion is not None:
                try:
                    ranges[name] = _range(criterion, value)
                except Wrong as wrong:
                    accept.wrong_field(name, str(wrong))
        if not list(accept) and design != "ranking":
            table.wrong_field("accept", "expected the answers that pass, such as { content = … }")
        hint = table.text("hint", '"Look at the number again."', default="")
        table.finish(elsewhere=_MISPLACED)
        opaque = secrets.token_urlsafe(_OPAQUE_BYTES)
        items.append(Practice(opaque, given, candidates, task, ranges, hint))
    return tuple(items)


def _range(criterion: Criterion, value: object) -> tuple[int, int]:
    """Lowest and highest answer that passes."""
    if criterion.scale == "ranking":
        raise Wrong("an order can't be checked; leave accept out")
    if criterion.scale == "pairwise":
        if not isinstance(value, str) or value not in PLACES:
            raise Wrong(f"expected one of {listed(PLACES)}; found {toml_kind(value)}")
        return PLACES[value], PLACES[value]
    least, most = SLIDER if criterion.scale == "slider" else (1, criterion.points)
    example = f"[{(least + most) // 2}, {most}]"
    if not (isinstance(value, list) and len(value) == 2 and all(type(v) is int for v in value)):
        raise Wrong(
            f"expected the lowest and the highest, such as {example}; found {toml_kind(value)}"
        )
    low, high = value
    if not least <= low <= high <= most:
        raise Wrong(f"expected {least} ≤ lowest ≤ highest ≤ {most}; found {value}")
    return low, high
