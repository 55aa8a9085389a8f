"""`levelfield rate serve`: a study is opened to raters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from levelfield.cli.options import takes
from levelfield.cli.terminal import say, tell
from levelfield_rating.cli.options import STORE, STUDY, usable_store
from levelfield_rating.settings import Serving, StoreOptions

if TYPE_CHECKING:
    from levelfield_rating.serving import ServedStudy

_UNENCRYPTED = (
    "note: what raters say goes over the network unencrypted; put a proxy with https before it and "
    "say --url https://..."
)


@click.command()
@STUDY
@STORE
@takes(Serving)
def serve(file: str, where: StoreOptions, options: Serving) -> None:
    """Open a study to raters until Ctrl-C.

    The first time the study is frozen into the store, and a link for every rater is printed. Every
    time a fresh link for the organiser is printed.
    """
    from levelfield_rating.serving import served_study

    with usable_store(), served_study(file, where.path(file), options) as study:
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
