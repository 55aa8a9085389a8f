"""`levelfield rate`: people's ratings, from a study file to an export."""

from __future__ import annotations

import click

from levelfield_rating.cli.links import links
from levelfield_rating.cli.results import backup, export, status, withdraw
from levelfield_rating.cli.serve import serve
from levelfield_rating.cli.study import check, init, schema


@click.group()
def rate() -> None:
    """Collect people's ratings of texts on a web page.

    A study is a TOML file with samples: `init` writes one to begin with, `check` says what is
    wrong with it, `serve` opens it to raters, `export` gives what `levelfield agreement` and
    `levelfield correlate` read.
    """


for _command in (init, check, schema, serve, links, status, export, backup, withdraw):
    rate.add_command(_command)
