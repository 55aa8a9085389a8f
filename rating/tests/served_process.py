"""`levelfield rate serve` as a process that can be killed and started again at its address."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - a server loads it late
import importlib
import os
import pkgutil
import random
import resource
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import levelfield_rating
from forked import Forked, fork, run_levelfield
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.store import database

LEVELFIELD = (sys.executable, "-m", "levelfield")


def run_command(folder: Path, *words: object) -> None:
    """Runs a command that must succeed; its output goes to a file of the folder."""
    output = folder / "command.output"
    process = fork("forked:run_levelfield", *words, out=output, errors=output)
    assert process.wait() == 0, output.read_text()


def serve_as_nobody(*words: str) -> None:
    """Runs a command as a user who may write nothing; `words[2]` is the study file."""
    for module in pkgutil.walk_packages(levelfield_rating.__path__, "levelfield_rating."):
        importlib.import_module(module.name)
    migrations = database.migrations()
    database.migrations = lambda: migrations
    freeze(words[2])
    if os.geteuid() == 0:
        os.setuid(65534)  # for whom what is not loaded yet may be out of reach
    run_levelfield(*words)


def serve_with_few_files(*words: str) -> None:
    """Runs a command that may have fewer files open than a test has connections."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
    run_levelfield(*words)


def free_port() -> int:
    """Returns a port below those that the system assigns.

    While the server is away, a client that tries to reach an assigned port may be connected to
    itself, and then nobody can listen there.
    """
    ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range")
    below = int(ephemeral.read_text().split()[0]) if ephemeral.exists() else 32_768
    drawn = random.SystemRandom()
    while True:
        port = drawn.randrange(below // 2, below)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class ServedStudy:
    """A study file, its store, and the server of it, whose process comes and goes.

    Attributes:
        links: of the raters, slot by slot.
    """

    def __init__(
        self, file: Path, command: str = "forked:run_levelfield", words: Sequence[str] = ()
    ) -> None:
        self.file = file
        self.command = command
        self.more = words
        self.store = file.with_suffix(".sqlite")
        self.output = file.with_name("server.stdout")
        self.complaints = file.with_name("server.stderr")
        self.port = free_port()
        self.process: Forked | None = None
        self._earlier = 0
        self.start()
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        lines = [line.split("\t") for line in self.output.read_text().splitlines()]
        self.links = [words[1] for words in lines if len(words) == 2 and "/r/" in words[1]]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def words(self) -> list[str]:
        return ["rate", "serve", str(self.file), "--port", str(self.port), *self.more]

    def start(self) -> None:
        self._earlier = len(self.complaints.read_text()) if self.complaints.exists() else 0
        self.process = fork(self.command, *self.words, out=self.output, errors=self.complaints)

    def wait_until_ready(self, limit_s: float = 120) -> None:
        assert self.process is not None
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            assert self.process.poll() is None, self.complaints.read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                pass
            else:
                if "serving" in self.complaints.read_text()[self._earlier :]:
                    return
            time.sleep(0.01)
        raise AssertionError(f"no server in {limit_s} s: {self.complaints.read_text()}")

    def kill(self) -> None:
        """Kills the process without a word, as a machine does that is out of memory."""
        assert self.process is not None
        assert self.process.poll() is None, self.complaints.read_text()
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
