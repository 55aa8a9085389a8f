"""`levelfield rate`: people's ratings, from a study file to an export."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import sys
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.terminal import console, say
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.rating.model import Frozen
    from levelfield.rating.plan.check import StudyCheck
    from levelfield.rating.store import RatingStore
    from levelfield.rating.store.records import LinkState


def _in_folder(_context: click.Context, _argument: click.Parameter, file: str) -> str:
    """A folder stands for the study file in it."""
    return str(Path(file) / "STUDY.toml") if Path(file).is_dir() else file


_STUDY = click.argument("file", metavar="STUDY.toml", callback=_in_folder)
_STORE = click.option(
    "--store", metavar="FILE", help="Where ratings are kept; else STUDY.sqlite beside STUDY.toml."
)
_URL = click.option(
    "--url",
    default="",
    metavar="ADDRESS",
    help="Where raters reach the server, such as https://example.org/ratings; for links.",
)
_HOST, _PORT = "127.0.0.1", 8765
_BASE_PATH = click.option(
    "--base-path", default="", metavar="/PATH", help="Where the proxy puts the pages."
)
_PAGES = ("api", "organiser", "r", "static", "study")
"""First parts of paths of the app; a proxy that takes such a base path away would mix them up."""

_UNENCRYPTED = (
    "note: what raters say goes over the network unencrypted; put a proxy with https before it and "
    "say --behind-proxy"
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


@click.group()
def rate() -> None:
    """Collect people's ratings of texts on a web page.

    A study is a TOML file with samples: `init` writes one to begin with, `check` says what is
    wrong with it, `serve` opens it to raters, `export` gives what `levelfield agreement` and
    `levelfield correlate` read.
    """


@rate.command()
@click.argument("folder")
def init(folder: str) -> None:
    """Write a study to begin with: a study file with comments, samples, and what to do next."""
    place = Path(folder)
    starter = resources.files("levelfield.rating").joinpath("starter")
    names = sorted(entry.name for entry in starter.iterdir() if not entry.name.startswith("_"))
    for name in names:
        if (place / name).exists():
            raise UserError(f"{place / name} is there already; name another folder")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            (place / name).write_bytes(starter.joinpath(name).read_bytes())
    except OSError as error:
        raise UserError(f"{folder}: can't be written: {error.strerror}") from error
    for name in names:
        click.echo(str(place / name))
    say(f"next: levelfield rate serve {place / 'STUDY.toml'}")


@rate.command()
@_STUDY
@_JSON
def check(file: str, as_json: bool) -> None:
    """Say what is wrong or odd with a study, and how much there is to rate."""
    from levelfield.rating.plan.check import check_study

    report = check_study(file)
    if as_json:
        click.echo(json.dumps(_document(report), ensure_ascii=False))
    else:
        _print_report(report)
    for problem in report.problems:
        say(f"error: {problem}")
    if not as_json:
        for warning in report.warnings:
            say(f"warning: {warning}")
        if report.ok:
            say("this study can be served")
    if report.problems:
        sys.exit(2)


def _document(report: StudyCheck) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "title": report.title,
        "problems": list(report.problems),
        "warnings": list(report.warnings),
        "samples": report.samples,
        "units": report.units,
        "texts": report.texts,
        "merged": report.merged,
        "systems": dict(report.systems),
        "directions": dict(report.directions),
        "raters": report.raters,
        "surveys": [
            {
                "items": survey.items,
                "controls": survey.controls,
                "directions": dict(survey.directions),
                "words": survey.words,
                "minutes": round(survey.minutes, 1),
            }
            for survey in report.surveys
        ],
    }


def _print_report(report: StudyCheck) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(report.title, "bold"))
    merged = f", {report.merged:,} shown by an equal one" if report.merged else ""
    out.print(
        Text(
            f"{report.samples:,} samples of {len(report.systems):,} systems; {report.units:,} "
            f"sources, prompts or contexts; {report.texts:,} different texts{merged}"
        )
    )
    if not report.surveys:
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("survey", "raters", "items", "negative", "directions", "words", "minutes"):
        table.add_column(heading, justify="left" if heading == "directions" else "right")
    for number, survey in enumerate(report.surveys, 1):
        directions = ", ".join(f"{name or '–'} {n}" for name, n in survey.directions.items())
        table.add_row(
            str(number),
            str(report.raters),
            f"{survey.items:,}",
            str(survey.controls),
            Text(directions),
            f"{survey.words:,}",
            f"{survey.minutes:.0f}",
        )
    out.print(table)


@rate.command()
@_STUDY
@_STORE
@click.option("--host", default=_HOST, show_default=True, help="0.0.0.0 for every interface.")
@click.option("--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True)
@click.option("--behind-proxy", is_flag=True, help="Believe X-Forwarded-Proto, -Host and -For.")
@_BASE_PATH
@_URL
def serve(
    file: str,
    store: str | None,
    host: str,
    port: int,
    behind_proxy: bool,
    base_path: str,
    url: str,
) -> None:
    """Open a study to raters until Ctrl-C.

    The first time the study is frozen into the store, and a link for every rater is printed. Every
    time a fresh link for the organiser is printed.
    """
    try:
        import uvicorn

        from levelfield.rating.web.app import create_app
    except ImportError as error:
        raise UserError(
            f"the rating app needs {error.name}: pip install 'levelfield[rating]'"
        ) from error
    from levelfield.rating.plan.check import check_study

    base_path = _base_path(base_path, url)
    with (
        _usable_store(),
        contextlib.closing(_served_store(file, store)) as opened,
        contextlib.closing(_listening(host, port)) as sock,
    ):
        where = url.rstrip("/") or _address(host, sock.getsockname()[1]) + base_path
        for warning in check_study(file).warnings:
            say(f"warning: {warning}")
        _greet(opened, where)
        if not behind_proxy and not _is_local(host):
            say(_UNENCRYPTED)
        app = create_app(opened, base_path=base_path, behind_proxy=behind_proxy)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # it has the addresses of raters
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            timeout_graceful_shutdown=10,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[sock])
        say("stopped; the same command goes on")


def _served_store(file: str, store: str | None) -> RatingStore:
    from levelfield.rating.plan.freezing import freeze
    from levelfield.rating.store import RatingStore

    path = store_path(file, store)
    earlier = None
    if path.exists() and path.stat().st_size:
        with contextlib.closing(RatingStore.open(path)) as known:
            earlier = known.frozen
    return RatingStore.create(path, freeze(file, earlier=earlier))


def _greet(store: RatingStore, where: str) -> None:
    """Links: the organiser's every time, those of raters that nobody has been given yet."""
    study = store.frozen
    click.echo(f"{study.title}, version {study.version}: {store.path}")
    click.echo(f"organiser\t{where}/organiser/enter/{store.organiser_secret()}")
    fresh = [link.slot for link in store.links() if link.state == "none"]
    for slot in fresh:
        click.echo(f"{study.slots[slot].name}\t{where}/r/{store.new_link(slot)}")
    if fresh:
        say("note: links are shown this once; `levelfield rate links` makes new ones")
    say("serving; Ctrl-C stops it")


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server((address[0], port), family=family)
    except OSError as error:
        said = error.strerror or str(error)
        raise UserError(f"--host {host} --port {port}: can't listen there: {said}") from error


def _is_local(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _address(host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def _base_path(base_path: str, url: str) -> str:
    """Where a proxy puts the pages; the path of --url unless it is said."""
    from urllib.parse import urlsplit

    if url and not url.startswith(("http://", "https://")):
        raise UserError(f"--url {url}: expected an address that begins with https://")
    path = base_path.strip("/") or urlsplit(url).path.strip("/")
    if path.partition("/")[0] in _PAGES:
        raise UserError(
            f"/{path}: the pages have paths of that name themselves; put them elsewhere, such as "
            "/ratings"
        )
    return f"/{path}" if path else ""


def store_path(file: str, store: str | None) -> Path:
    """The store of a study file."""
    return Path(store) if store else Path(file).with_suffix(".sqlite")


@contextlib.contextmanager
def _opened(file: str, store: str | None, *, read_only: bool = False) -> Iterator[RatingStore]:
    from levelfield.rating.store import RatingStore

    with _usable_store():
        opened = RatingStore.open(store_path(file, store), read_only=read_only)
        try:
            yield opened
        finally:
            opened.close()


@contextlib.contextmanager
def _usable_store() -> Iterator[None]:
    """A disk that says no is the user's to mend."""
    from levelfield.rating.store.records import StoreUnavailable

    try:
        yield
    except StoreUnavailable as error:
        raise UserError(f"the store can't be used: {error}") from error


@rate.command()
@_STUDY
@_STORE
@click.option("--slot", type=click.IntRange(1), help="Only this one, by its number.")
@click.option("--new", is_flag=True, help="With --slot: a new link for its rater.")
@click.option("--revoke", is_flag=True, help="With --slot: end its link.")
@click.option("--reassign", is_flag=True, help="With --slot: a link for another person.")
@click.option("--csv", "csv_file", metavar="FILE", help="New links of all slots not opened yet.")
@_URL
@_BASE_PATH
def links(
    file: str,
    store: str | None,
    slot: int | None,
    new: bool,
    revoke: bool,
    reassign: bool,
    csv_file: str | None,
    url: str,
    base_path: str,
) -> None:
    """Show the state of the raters' links; make, revoke and reassign them.

    A link can be read only when it is made: the store keeps no link. May be used while the study
    is served.
    """
    wanted = {"new": new, "revoke": revoke, "reassign": reassign}
    chosen = [name for name, said in wanted.items() if said]
    if len(chosen) + bool(csv_file) > 1:
        raise UserError("only one of --new, --revoke, --reassign and --csv at a time")
    if chosen and slot is None:
        raise UserError(f"--{chosen[0]}: say for which --slot")
    if csv_file and slot is not None:
        raise UserError("--csv is for all slots; leave --slot out, or say --new")
    path = _base_path(base_path, url)
    where = url.rstrip("/") or _address(_HOST, _PORT) + path
    with _opened(file, store, read_only=not (chosen or csv_file)) as opened:
        slots = opened.frozen.slots
        if slot is not None and slot > len(slots):
            raise UserError(f"--slot {slot}: the study has {len(slots)} slots")
        if csv_file:
            _write_links(opened, csv_file, where)
        elif revoke and slot is not None:
            opened.revoke(slot - 1)
            say(f"the link of {slots[slot - 1].name} is revoked")
        elif chosen and slot is not None:
            token = opened.new_link(slot - 1) if new else opened.reassign(slot - 1)
            click.echo(f"{where}/r/{token}")
        else:
            _print_links(opened.frozen, opened.links(), slot)


def _write_links(store: RatingStore, file: str, where: str) -> None:
    from levelfield.io import atomic_writer, check_writable
    from levelfield.rating.export.tables import table

    unused = [link.slot for link in store.links() if link.state in ("none", "made")]
    if not unused:
        raise UserError("every link has been opened or revoked; make new ones with --slot N --new")
    if file != "-":
        check_writable(file)
    rows: list[Sequence[object]] = [("slot", "name", "link")]
    for n in unused:
        rows.append((n + 1, store.frozen.slots[n].name, f"{where}/r/{store.new_link(n)}"))
    with atomic_writer(file) as out:
        out.write(table(rows))
    if file != "-":
        with contextlib.suppress(OSError):
            Path(file).chmod(0o600)
        say(f"wrote {file}: {len(unused)} links; earlier ones that nobody opened have ended")


def _print_links(frozen: Frozen, found: Sequence[LinkState], slot: int | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    shown = [link for link in found if slot is None or link.slot == slot - 1]
    table = Table(box=None, pad_edge=False)
    for heading in ("slot", "name", "rater", "link", "since"):
        table.add_column(heading, justify="right" if heading == "slot" else "left")
    for link in shown:
        table.add_row(
            str(link.slot + 1),
            escape(frozen.slots[link.slot].name),
            link.rater or "–",
            link.state,
            f"{link.when:%Y-%m-%d %H:%M} UTC" if link.when else "–",
        )
    console().print(table)


@rate.command()
@_STUDY
@_STORE
@_JSON
def status(file: str, store: str | None, as_json: bool) -> None:
    """Say how far every rater is, and who fails by the negative samples."""
    from levelfield.rating.results.negatives import verdict
    from levelfield.rating.results.raters import progress, spreads

    with _opened(file, store, read_only=True) as opened:
        frozen, excluded = opened.frozen, opened.excluded()
        states, closed = opened.raters(), opened.closed()
        raters: list[dict[str, Any]] = []
        for state in states:
            far, judged = progress(frozen, state), verdict(frozen, state)
            used = spreads(frozen, state)
            raters.append(
                {
                    "rater": state.rater,
                    "slot": state.slot + 1,
                    "phase": state.phase,
                    "done": far.done,
                    "items": far.items,
                    "last_seen": state.last_seen.isoformat() if state.last_seen else None,
                    "failed": judged.failed,
                    "negative": judged.why,
                    "straight": [name for name, spread in used.items() if spread.straight],
                    "scale": {
                        name: {
                            "n": spread.n,
                            "mean": _known(spread.mean),
                            "sd": _known(spread.sd),
                            "same": _known(spread.same),
                        }
                        for name, spread in used.items()
                    },
                    "excluded": excluded.get(state.rater, ""),
                    "replaced": state.replaced,
                }
            )
    document = {
        "study": frozen.id,
        "version": frozen.version,
        "digest": frozen.digest,
        "closed": closed,
        "slots": len(frozen.slots),
        "raters": raters,
    }
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        _print_status(document)


def _known(x: float) -> float | None:
    return x if math.isfinite(x) else None


def _print_status(document: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    table = Table(box=None, pad_edge=False)
    for heading in ("slot", "rater", "state", "items", "last seen", "negative", "note"):
        table.add_column(heading, justify="right" if heading in ("slot", "items") else "left")
    for one in document["raters"]:
        notes = [f"excluded: {one['excluded']}"] if one["excluded"] else []
        if one["straight"]:
            notes.append(f"straight line? {', '.join(one['straight'])}")
        seen = one["last_seen"]
        table.add_row(
            str(one["slot"]),
            one["rater"],
            one["phase"],
            f"{one['done']} of {one['items']}",
            f"{seen[:16].replace('T', ' ')} UTC" if seen else "never",
            {True: "failed", False: "passed", None: "–"}[one["failed"]],
            escape("; ".join(notes)),
        )
    out.print(table)
    done = sum(one["phase"] == "done" and not one["replaced"] for one in document["raters"])
    how = "closed" if document["closed"] else "open"
    say(f"{done} of {document['slots']} done; the study is {how}")


@rate.command()
@_STUDY
@_STORE
@click.option("--out", required=True, metavar="FOLDER", help="Where the files go.")
@click.option("--with-excluded", is_flag=True, help="Also raters who were excluded or replaced.")
def export(file: str, store: str | None, out: str, with_excluded: bool) -> None:
    """Write ratings, events and a codebook; may be done while the study is served."""
    from levelfield.rating.export.documents import export as write

    with _opened(file, store, read_only=True) as opened:
        written = write(opened, out, excluded=with_excluded)
        left_out = {} if with_excluded else opened.excluded()
    for path in written:
        click.echo(str(path))
    for rater, reason in left_out.items():
        say(f"left out: {rater}: {reason}")


@rate.command()
@_STUDY
@click.argument("target", metavar="FILE")
@_STORE
def backup(file: str, target: str, store: str | None) -> None:
    """Copy the store, of one moment, while it is served."""
    with _opened(file, store, read_only=True) as opened:
        opened.backup(Path(target))
    say(f"wrote {target}, {Path(target).stat().st_size:,} bytes")


@rate.command()
@_STUDY
@click.argument("rater")
@_STORE
@click.option("--yes", is_flag=True, help="Needed: what they said is deleted for good.")
def withdraw(file: str, rater: str, store: str | None, yes: bool) -> None:
    """Delete what a rater said, for one who asks for it and has no link any more.

    That and when they answered stays; exports and backups made before keep what they had.
    """
    from levelfield.rating.store.records import RequestRefused

    if not yes:
        raise UserError(f"what {rater} said would be deleted for good; say so with --yes")
    with _opened(file, store) as opened:
        try:
            opened.withdraw(rater)
        except RequestRefused as error:
            raise UserError(f"there is no rater '{rater}' in this study") from error
    say(f"{rater} is withdrawn")
