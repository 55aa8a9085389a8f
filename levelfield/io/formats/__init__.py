"""The formats of files that samples are read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.extensions import Extensible
from levelfield.io import lines
from levelfield.io.formats import (
    chat,
    helm_run,
    inspect_log,
    label_studio,
    lm_eval,
    pearmut,
    potato,
    table,
)
from levelfield.io.formats.preview import Preview
from levelfield.io.lines import Row
from levelfield.io.logged import LogFacts
from levelfield.io.problems import printable, shown


@dataclass(frozen=True)
class Format:
    """How one kind of file or folder is read.

    Attributes:
        rows: the records of a file, problems among them.
        suffixes: of files that have this format.
        unit: what is counted, if not lines; precedes the number in messages.
        cells: whether values have no types, only text.
        is_table: whether all records have the same fields.
        fits: whether a file or folder has this format by its content, which counts before a suffix.
        facts: what a log says of all of its samples; its records have the field `logged`
            (`levelfield.io.logged`).
    """

    rows: Callable[[Path], Iterator[Row]]
    suffixes: tuple[str, ...] = ()
    unit: str = ""
    cells: bool = False
    is_table: bool = False
    fits: Callable[[Preview], bool] | None = None
    facts: Callable[[Path], LogFacts] | None = None


_OWN = {
    "jsonl": Format(lines.jsonl, (".jsonl", ".ndjson")),
    "json": Format(lines.json_list, (".json",), unit="item "),
    "csv": Format(table.comma_separated, (".csv",), cells=True, is_table=True),
    "tsv": Format(table.tab_separated, (".tsv",), cells=True, is_table=True),
    "parquet": Format(table.parquet_rows, (".parquet",), unit="row ", is_table=True),
    "text": Format(lines.plain, (".txt",), is_table=True),
    "ctrleval": Format(table.ctrleval_rows, cells=True, is_table=True),
    "inspect": Format(
        inspect_log.inspect_rows,
        (".eval",),
        unit="sample ",
        fits=inspect_log.is_inspect,
        facts=inspect_log.inspect_facts,
    ),
    "lm-eval": Format(lm_eval.lm_eval_rows, fits=lm_eval.is_lm_eval, facts=lm_eval.lm_eval_facts),
    "helm": Format(
        helm_run.helm_rows, unit="request ", fits=helm_run.is_helm, facts=helm_run.helm_facts
    ),
    "chat": Format(chat.chats, fits=chat.is_chat),
    "potato": Format(potato.potato_ratings, unit="answer ", fits=potato.is_potato),
    "pearmut": Format(pearmut.pearmut_ratings, unit="answer ", fits=pearmut.is_pearmut),
    "label-studio": Format(
        label_studio.label_studio_ratings, unit="task ", fits=label_studio.is_label_studio
    ),
}

FORMATS: Mapping[str, Format] = Extensible("levelfield.formats", Format, _OWN)
"""Name -> format; those of other distributions come last."""


SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
"""Suffixes of files that no format here reads."""


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise UserError(f"there is no format {shown(name)}; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def format_at(path: Path) -> Format:
    """Returns the format of a file or folder: by its content, else by its name.

    Raises:
        UserError: neither says it.
        OSError: it can't be read.
    """
    preview = Preview(path)
    broken: UserError | None = None
    if own_format := _fitting(_OWN.values(), preview):
        return own_format
    for name in (name for name in FORMATS if name not in _OWN):
        try:
            if other := _fitting([FORMATS[name]], preview):
                return other
        except UserError as error:  # is it needed at all?
            broken = error
    if preview.is_folder:
        raise UserError(
            f"{printable(str(path))}: is a folder; name the files in it, or a folder with one run "
            "of lm-evaluation-harness or HELM, or with annotations of Potato"
        )
    try:
        return format_of(str(path))
    except UserError as error:
        raise broken or error from None


def _fitting(formats: Iterable[Format], preview: Preview) -> Format | None:
    """Returns the first format that a file or folder has by its content."""
    fitting = (f for f in formats if f.fits is not None and f.fits(preview))
    return next(fitting, None)


def format_of(path: str) -> Format:
    """Returns the format that a file's name says it has."""
    suffix = Path(path).suffix.lower()
    for format in FORMATS.values():
        if suffix in format.suffixes:
            return format
    if suffix in SPREADSHEETS:
        raise UserError(f"{printable(path)}: a spreadsheet; save it as CSV in UTF-8")
    unpack = "unpack it first, or " if suffix in (".gz", ".bz2", ".xz", ".zst", ".zip") else ""
    raise UserError(
        f"{printable(path)}: {shown(suffix) if suffix else 'a name without suffix'} does not "
        f"determine the format; {unpack}name it: --format {'|'.join(FORMATS)}"
    )
