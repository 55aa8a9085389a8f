"""`levelfield rate`: people's ratings, from a study file to an export."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from levelfield.cli.options import JSON, takes
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import console, say, tell, tell_json
from levelfield.core.errors import UserError
from levelfield.show.terminal import plain_table
from levelfield_rating.settings import ExportOptions, LinkOptions, Serving, StoreOptions

if TYPE_CHECKING:
    from levelfield_rating.model import Frozen
    from levelfield_rating.plan.check import StudyCheck
    from levelfield_rating.results.raters import RatingStatus
    from levelfield_rating.serving import ServedStudy
    from levelfield_rating.store import LinkState, RatingStore


def _in_folder(_context: click.Context, _argument: click.Parameter, file: str) -> str:
    """Returns the study file that a path means: the one inside, if it is a folder."""
    return str(Path(file) / "STUDY.toml") if Path(file).is_dir() else file


STUDY = click.argument("file", metavar="STUDY.toml", type=INPUT, callback=_in_folder)
STORE = takes(StoreOptions, "where")


@contextlib.contextmanager
def _open_store(
    file: str, where: StoreOptions, *, read_only: bool = False
) -> Iterator[RatingStore]:
    from levelfield_rating.store import RatingStore

    with (
        _usable_store(),
        contextlib.closing(RatingStore.open(where.path(file), read_only=read_only)) as store,
    ):
        yield store


@contextlib.contextmanager
def _usable_store() -> Iterator[None]:
    """Turns a failure of the disk into an error that the user can mend."""
    from levelfield_rating.store import StoreUnavailable

    try:
        yield
    except StoreUnavailable as error:
        raise UserError(f"the store can't be used: {error}") from error


@click.group()
def rate() -> None:
    """Collect people's ratings of texts on a web page.

    A study is a TOML file with samples: `init` writes one to start from, `check` reports mistakes
    in it, `serve` opens it to raters, `export` writes the files that `levelfield agreement` and
    `levelfield correlate` read.
    """


@rate.command(cls=Writing)
@click.argument("folder", type=OutputType())
def init(folder: str) -> None:
    """Write a study to start from, with samples and a README."""
    from importlib import resources

    place = Path(folder)
    starter = resources.files("levelfield_rating").joinpath("starter")
    names = sorted(entry.name for entry in starter.iterdir() if not entry.name.startswith("_"))
    for name in names:
        if (place / name).exists():
            raise UserError(f"{place / name} already exists; name another folder")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            (place / name).write_bytes(starter.joinpath(name).read_bytes())
    except OSError as error:
        raise UserError(f"{folder}: can't be written: {error.strerror}") from error
    for name in names:
        tell(str(place / name))
    say(f"next: levelfield rate serve {place / 'STUDY.toml'}")


@rate.command()
@STUDY
@JSON
def check(file: str, as_json: bool) -> None:
    """Report mistakes in a study, and how much there is to rate."""
    from levelfield_rating.plan.check import check_study

    result = check_study(file)
    if as_json:
        tell_json(result.to_dict())
    else:
        _print_check(result)
    for problem in result.problems:
        say(f"error: {problem}")
    if not as_json:
        for warning in result.warnings:
            say(f"warning: {warning}")
        if result.ok:
            say("this study can be served")
    if result.problems:
        click.get_current_context().exit(2)


def _print_check(study: StudyCheck) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(study.title, "bold"))
    merged = f", {study.merged:,} shown by an equal one" if study.merged else ""
    out.print(
        f"{study.samples:,} samples of {len(study.systems):,} systems; {study.units:,} "
        f"sources, prompts or contexts; {study.texts:,} different texts{merged}"
    )
    if not study.surveys:
        return
    table = plain_table(
        *(">survey", ">raters", ">items", ">negative", "directions", ">words", ">minutes")
    )
    for number, survey in enumerate(study.surveys, 1):
        table.add_row(
            str(number),
            str(study.raters),
            f"{survey.items:,}",
            str(survey.controls),
            ", ".join(f"{name or '–'} {n}" for name, n in survey.directions.items()),
            f"{survey.words:,}",
            f"{survey.minutes:.0f}",
        )
    out.print(table)


@rate.command()
def schema() -> None:
    """Print the JSON Schema of study files, for editors that complete and check TOML."""
    from levelfield_rating import schema

    tell_json(schema(), indent=2)


@rate.command()
@STUDY
@STORE
@takes(Serving)
def serve(file: str, where: StoreOptions, options: Serving) -> None:
    """Open a study to raters until Ctrl-C.

    The first time, the study is frozen into its store, and a link for every rater is printed. A
    fresh link for the organiser is printed every time.
    """
    from levelfield_rating.serving import served_study

    with _usable_store(), served_study(file, where.path(file), options) as study:
        _greet(study)
        if not study.address.is_https and not study.address.is_local:
            say(_UNENCRYPTED)
        study.run()
        say("stopped; the same command resumes")


_UNENCRYPTED = (
    "note: the answers of raters go over the network unencrypted; put an https proxy in front of "
    "it and give --url https://..."
)


def _greet(study: ServedStudy) -> None:
    """Links: the organiser's every time, those of raters that nobody has been given yet."""
    for warning in study.warnings:
        say(f"warning: {warning}")
    frozen = study.store.frozen
    tell(f"{frozen.title}, version {frozen.version}: {study.store.path}")
    tell(f"organiser\t{study.organiser}")
    fresh = False
    for name, link in study.raters:
        tell(f"{name}\t{link}")
        fresh = True
    if fresh:
        say("note: links are shown only once; `levelfield rate links` makes new ones")
    say("serving; Ctrl-C stops it")


@rate.command(cls=Writing)
@STUDY
@STORE
@takes(LinkOptions)
@click.option(
    "--csv",
    "csv_file",
    type=OutputType("links of raters"),
    help="Write new links for all slots that nobody has opened yet, as CSV.",
)
def links(file: str, where: StoreOptions, options: LinkOptions, csv_file: str | None) -> None:
    """Show the state of the raters' links; make, revoke and reassign them.

    A link is shown only when it is made, since the store does not keep it. Works while the study is
    served.
    """
    from levelfield_rating.serving import change_link, write_links

    if csv_file and options.changes:
        raise UserError("give only one of --new, --revoke, --reassign and --csv")
    if csv_file and options.slot is not None:
        raise UserError("--csv is for all slots; leave out --slot, or give --new")
    writes = bool(options.changes or csv_file)
    with _open_store(file, where, read_only=not writes) as store:
        slot = options.index(len(store.frozen.slots))
        if csv_file:
            number = write_links(store, csv_file, options.root)
            if csv_file != "-":
                say(
                    f"wrote {csv_file}: {number} links; earlier ones that nobody opened no longer "
                    "work"
                )
        elif slot is None or not options.changes:
            _print_links(store.frozen, store.links(), slot)
        elif link := change_link(store, options):
            tell(link)
        else:
            say(f"the link of {store.frozen.slots[slot].name} is revoked")


def _print_links(frozen: Frozen, states: Sequence[LinkState], slot: int | None) -> None:
    table = plain_table(">slot", "name", "rater", "link", "since")
    for link in states:
        if slot in (None, link.slot):
            table.add_row(
                str(link.slot + 1),
                frozen.slots[link.slot].name,
                link.rater or "–",
                link.state,
                f"{link.when:%Y-%m-%d %H:%M} UTC" if link.when else "–",
            )
    console().print(table)


@rate.command()
@STUDY
@STORE
@JSON
def status(file: str, where: StoreOptions, as_json: bool) -> None:
    """Show the raters' progress, and who fails negative samples."""
    from levelfield_rating.results.raters import rating_status

    with _open_store(file, where, read_only=True) as store:
        status = rating_status(store)
    if as_json:
        tell_json(status.to_dict())
    else:
        _print_status(status)


def _print_status(study: RatingStatus) -> None:
    table = plain_table(">slot", "rater", "state", ">items", "last seen", "negative", "note")
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


@rate.command(cls=Writing)
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
    """Write ratings, events and a codebook.

    Works while the study is served.
    """
    from levelfield_rating.export.documents import export as write

    with _open_store(file, where, read_only=True) as store:
        written = write(store, out, options)
        left_out = {} if options.excluded else store.excluded()
    for path in written:
        tell(str(path))
    for rater, reason in left_out.items():
        say(f"left out: {rater}: {reason}")


@rate.command(cls=Writing)
@STUDY
@click.argument("target", metavar="FILE", type=OutputType(new=True))
@STORE
def backup(file: str, target: str, where: StoreOptions) -> None:
    """Copy the store as of one moment, even while it is served."""
    with _open_store(file, where, read_only=True) as store:
        store.backup(Path(target))
    say(f"wrote {target}, {Path(target).stat().st_size:,} bytes")


@rate.command()
@STUDY
@click.argument("rater")
@STORE
@click.option(
    "--yes", is_flag=True, help="Confirm that the rater's answers are deleted for good; required."
)
def withdraw(file: str, rater: str, where: StoreOptions, yes: bool) -> None:
    """Delete the answers of a rater who no longer has a link.

    The record that they answered, and when, stays; earlier exports and backups keep the answers.
    """
    from levelfield_rating.store import RequestRefused

    if not yes:
        raise UserError(f"this deletes the answers of {rater} for good; confirm with --yes")
    with _open_store(file, where) as store:
        try:
            store.withdraw(rater)
        except RequestRefused as error:
            raise UserError(f"there is no rater '{rater}' in this study") from error
        pending = store.is_erasing()
    say(f"{rater} is withdrawn")
    if pending:
        say(
            "note: another process is reading the store, so its write-ahead log still holds the "
            f"answers of {rater}; `levelfield rate serve` overwrites them with the next answer, or "
            "when it starts"
        )
