"""The files of a study's report: a page, its numbers as CSV, its tables as LaTeX and Markdown."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.io import atomic_writer
from levelfield.io.tables import csv_text
from levelfield.report.study_page import StudyPage, write_study_page
from levelfield.study.aggregate.latex import study_latex
from levelfield.study.aggregate.numbers import number_rows, number_schema
from levelfield.study.aggregate.results import StudySummary
from levelfield.study.report import StudyReport

FILES = ("page.html", "numbers.csv", "tables.tex", "tables.md")


def write_study_report(folder: Path, report: StudyReport, *, command: str = "") -> None:
    """Writes `FILES` to a folder, each whole or not at all.

    Args:
        command: how the report was made; empty if not from a command line.

    Raises:
        UserError: the folder or a file can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: can't be made: {error.strerror}") from error
    page = StudyPage(
        title=report.study,
        created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        summary=report.summary,
        findings=report.findings,
        texts=report.texts,
        files=[report.path],
        command=command,
    )
    write_study_page(folder / "page.html", page)
    write_study_csv(folder / "numbers.csv", report.summary)
    write_study_latex(folder / "tables.tex", report.summary)
    with atomic_writer(folder / "tables.md") as file:
        file.write(report.to_markdown())


def write_study_csv(path: str | os.PathLike[str], summary: StudySummary) -> None:
    """Writes the numbers as `aggregate.numbers` has them for spreadsheets, undefined ones empty."""
    rows = (["" if v is None else v for v in row.values()] for row in number_rows(summary))
    with atomic_writer(path) as file:
        file.write(csv_text([list(number_schema(summary)), *rows], end="\n"))


def write_study_latex(path: str | os.PathLike[str], summary: StudySummary) -> None:
    """Writes the tables for documents that load booktabs."""
    with atomic_writer(path) as file:
        file.write(study_latex(summary))
