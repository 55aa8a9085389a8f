"""A technique in a process of its own, which answers one cell after the other."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from levelfield.generation.contract import Decoding, Technique
from levelfield.generation.table import make_technique
from levelfield.study.ask.requests import request_record
from levelfield.study.ask.running import SystemProcess
from levelfield.study.cells import CellRequest
from levelfield.study.plan import TechniqueSource


def technique_identity(source: TechniqueSource) -> list[str]:
    """The signature of a technique without our version, and every choice of decoding.

    Models and guides are in it by their checksums, and what no text depends on (batches, devices)
    is not. Our version is left out, so that texts stay when it changes.

    Raises:
        UserError: a model or guide is not on this machine.
    """
    return identity(make_technique(source.technique, source.options), source.decoding)


def identity(technique: Technique, decoding: Decoding) -> list[str]:
    """The same of a technique that is there."""
    signature, _, _ = technique.signature.rpartition("|v:")
    return [signature, *(f"{name}:{choice}" for name, choice in decoding.choices.items())]


class TechniqueProcess:
    """The process of a technique: started for the first cell, kept for the others until it is
    closed. One that was closed is started again for the next attempt.
    """

    stays = True

    def __init__(self, source: TechniqueSource) -> None:
        self.name = sys.executable
        self._source = source
        self._system: SystemProcess | None = None

    def __enter__(self) -> TechniqueProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, requests: Sequence[CellRequest], seed: int) -> SystemProcess:
        """Sends the requests of a cell; memory is measured from now on."""
        cell = {
            "seed": seed,
            "identity": technique_identity(self._source),
            "requests": [request_record(request) for request in requests],
        }
        if self._system is None:
            self._system = self._start()
        else:
            self._system.memory.restart()
        self._system.pipes.send(json.dumps(cell).encode() + b"\n", last=False)
        return self._system

    def close(self) -> None:
        """Ends the process, if there is one."""
        if self._system:
            self._system.end()
            self._system = None

    def _start(self) -> SystemProcess:
        worker = [sys.executable, "-P", "-m", "levelfield.study.ask.technique_worker"]
        options, decoding = dict(self._source.options), asdict(self._source.decoding)
        words = [self._source.technique, json.dumps(options), json.dumps(decoding)]
        # in our own folder: a name in the options has to stand for what it does here
        return SystemProcess([*worker, *words], os.environ, folder=None)
