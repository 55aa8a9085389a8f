"""`levelfield rate serve`: a study is opened to raters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import WholeNumber
from levelfield.cli.rate.options import STORE, STUDY, URL, store_path, usable_store
from levelfield.cli.terminal import say, tell

if TYPE_CHECKING:
    from levelfield.rating.serving import ServedStudy

_UNENCRYPTED = (
    "note: what raters say goes over the network unencrypted; put a proxy with https before it and "
    "say --url https://..."
)


@dataclass(frozen=True)
class ServeOptions:
    """The words of `levelfield rate serve`."""

    file: str
    store: str | None
    host: str
    port: int
    url: str


@click.command()
@STUDY
@STORE
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 for every interface.")
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=8765,
    show_default=True,
    help="Port that the server listens on.",
)
@URL
def serve(**words: Any) -> None:
    """Open a study to raters until Ctrl-C.

    The first time the study is frozen into the store, and a link for every rater is printed. Every
    time a fresh link for the organiser is printed.
    """
    from levelfield.rating.links import Address
    from levelfield.rating.serving import Serving, served_study

    options = ServeOptions(**words)
    address = Address.of(options.url) if options.url else None
    serving = Serving(options.host, options.port, address)
    path = store_path(options.file, options.store)
    with usable_store(), served_study(options.file, path, serving) as study:
        _greet(study)
        if not study.address.is_https and not study.address.is_local:
            say(_UNENCRYPTED)
        study.run()
        say("stopped; the same command goes on")


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
        say("note: links are shown this once; `levelfield rate links` makes new ones")
    say("serving; Ctrl-C stops it")
