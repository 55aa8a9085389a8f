"""`levelfield rate status`, `export`, `backup` and `withdraw`: what the store has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from levelfield.cli.options import JSON, takes
from levelfield.cli.outputs import OutputType, Writing
from levelfield.cli.terminal import console, say, tell, tell_json
from levelfield.core.errors import UserError
from levelfield_rating.cli.options import STORE, STUDY, open_store
from levelfield_rating.settings import ExportOptions, StoreOptions

if TYPE_CHECKING:
    from levelfield_rating.status import RatingStatus


@click.command()
@STUDY
@STORE
@JSON
def status(file: str, where: StoreOptions, as_json: bool) -> None:
    """Say how far every rater is, and who fails by the negative samples."""
    from levelfield_rating.status import rating_status

    with open_store(file, where, read_only=True) as opened:
        status = rating_status(opened)
    if as_json:
        tell_json(status.to_dict())
    else:
        _print(status)


def _print(study: RatingStatus) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("slot", "rater", "state", "items", "last seen", "negative", "note"):
        table.add_column(heading, justify="right" if heading in ("slot", "items") else "left")
    for rater in study.raters:
        notes = [f"excluded: {rater.excluded}"] if rater.excluded else []
        if rater.straight:
            notes.append(f"straight line? {', '.join(rater.straight)}")
        seen = rater.state.last_seen
        table.add_row(
            str(rater.state.slot + 1),
            rater.state.rater,
            rater.state.phase,
            f"{rater.progress.done} of {rater.progress.items}",
            f"{seen:%Y-%m-%d %H:%M} UTC" if seen else "never",
            {True: "failed", False: "passed", None: "–"}[rater.verdict.failed],
            "; ".join(notes),
        )
    console().print(table)
    how = "closed" if study.closed else "open"
    say(f"{study.done} of {study.slots} done; the study is {how}")


_FILES = (
    *("codebook.md", "comments.jsonl", "controls.jsonl", "events.jsonl", "pairs.jsonl"),
    *("raters.csv", "rankings.jsonl", "ratings.csv", "ratings.jsonl", "study.json"),
)


@click.command(cls=Writing)
@STUDY
@STORE
@click.option(
    "--out",
    required=True,
    type=OutputType(files=dict.fromkeys(_FILES, "an export of ratings")),
    help="Folder for the files.",
)
@takes(ExportOptions)
def export(file: str, where: StoreOptions, out: str, options: ExportOptions) -> None:
    """Write ratings, events and a codebook; may be done while the study is served."""
    from levelfield_rating.export.documents import export as write

    with open_store(file, where, read_only=True) as opened:
        written = write(opened, out, options)
        left_out = {} if options.excluded else opened.excluded()
    for path in written:
        tell(str(path))
    for rater, reason in left_out.items():
        say(f"left out: {rater}: {reason}")


@click.command(cls=Writing)
@STUDY
@click.argument("target", metavar="FILE", type=OutputType(new=True))
@STORE
def backup(file: str, target: str, where: StoreOptions) -> None:
    """Copy the store, as of one moment, while it is served."""
    with open_store(file, where, read_only=True) as opened:
        opened.backup(Path(target))
    say(f"wrote {target}, {Path(target).stat().st_size:,} bytes")


@click.command()
@STUDY
@click.argument("rater")
@STORE
@click.option(
    "--yes", is_flag=True, help="Confirm that the rater's answers are deleted for good; required."
)
def withdraw(file: str, rater: str, where: StoreOptions, yes: bool) -> None:
    """Delete what a rater said, for one who asks for it and no longer has a link.

    That and when they answered stays; exports and backups made before keep what they had.
    """
    from levelfield_rating.store import RequestRefused

    if not yes:
        raise UserError(f"what {rater} said would be deleted for good; say so with --yes")
    with open_store(file, where) as opened:
        try:
            opened.withdraw(rater)
        except RequestRefused as error:
            raise UserError(f"there is no rater '{rater}' in this study") from error
        pending = opened.is_erasing()
    say(f"{rater} is withdrawn")
    if pending:
        say(
            f"note: another process reads the store, so its write-ahead log still has what {rater} "
            "said; a running `levelfield rate serve` overwrites it with the next answer, or it "
            "does so when it starts"
        )
