"""A process that speaks to Ray for the process of a run; see `levelfield.scoring.ray`.

Ray takes signals for itself, prints on both streams of its process, and ends that process when it
loses the cluster. All of that stays here. Requests come over stdin, and replies go over stdout when
they are there, in any order; when stdin ends, so do the actors.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import IO, Any

from levelfield.core.errors import first_line
from levelfield.core.machine import usable_processors
from levelfield.scoring.worker import own_pipes, receive, send

OBJECT_STORE = 256 << 20
"""Bytes of the memory that Ray passes partitions through, where it is started here."""


@dataclass(frozen=True)
class Actor:
    """What an actor takes of its node, and what it is told.

    Attributes:
        cpus, gpus: that Ray sets aside.
        threads: of its libraries.
        path, folder: of modules, and the current one, of the process of the run.
    """

    cpus: float
    gpus: float
    threads: int
    path: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class Node:
    """A machine of a cluster: its processors, GPUs and bytes of memory."""

    cpus: float
    gpus: float
    memory: float


@dataclass(frozen=True)
class Joined:
    """A cluster that is joined.

    Attributes:
        control: HOST:PORT of its control store.
        nodes: those that are alive.
        cpus, gpus: that are free.
        here: the place of this process.
    """

    control: str
    nodes: tuple[Node, ...]
    cpus: float
    gpus: float
    here: str


def actor_class() -> type:
    """The class of actors; Ray sends it along, so that it runs where the package is missing."""

    class Partitions:
        def __init__(self, path: tuple[str, ...], folder: str, threads: int, gpus: float) -> None:
            import contextlib
            import os
            import sys

            sys.path += [entry for entry in path if entry not in sys.path]
            with contextlib.suppress(OSError):  # of another machine
                os.chdir(folder)
            os.environ["OMP_NUM_THREADS"] = str(threads)
            os.environ["TOKENIZERS_PARALLELISM"] = "false"
            if not gpus:
                os.environ["CUDA_VISIBLE_DEVICES"] = ""
            self.answers: Any = None

        def place(self) -> tuple[str, str | None, str]:
            # node, version of levelfield (None without it), version of Python
            import contextlib
            import platform
            import socket

            import ray

            version: str | None = None
            with contextlib.suppress(ImportError):
                from levelfield.version import __version__

                version = __version__
            address: Any = ray.util.get_node_ip_address
            return f"{socket.gethostname()} ({address()})", version, platform.python_version()

        def answer(self, message: bytes) -> bytes:
            if self.answers is None:
                from levelfield.scoring.worker import Answers

                self.answers = Answers()
            answer: bytes = self.answers(message)
            return answer

    return Partitions


class Gateway:
    """Actors by number, and what is asked of them.

    Args:
        replies: where replies go.
        address: as for `ray.init`; `local` starts Ray on this machine.
    """

    def __init__(self, replies: IO[bytes], address: str) -> None:
        import ray

        self._ray: Any = ray
        self._replies = replies
        self._lock = threading.Lock()
        self._actors: dict[int, Any] = {}
        quiet: Any = {"log_to_driver": False, "logging_level": "error"}
        if address == "local":
            ray.init(
                address="local",
                num_cpus=usable_processors(),
                include_dashboard=False,
                object_store_memory=OBJECT_STORE,
                **quiet,
            )
        else:
            ray.init(address=address, **quiet)
        self._requests: dict[str, Callable[..., None]] = {
            "joined": self.joined,
            "start": self.start,
            "answer": self.answer,
            "kill": self.kill,
        }
        self._class: Any = ray.remote(actor_class())
        self._control = address.removeprefix("ray://")
        if not address.startswith("ray://"):
            self._control = ray.get_runtime_context().gcs_address

    def reply(self, tag: int, payload: object) -> None:
        """Sends a reply; an exception is what went wrong."""
        with self._lock:
            send(self._replies, pickle.dumps((tag, payload)))

    def serve(self, requests: IO[bytes]) -> None:
        """Does what is asked for until there are no more requests."""
        while (request := receive(requests)) is not None:
            tag, name, *words = pickle.loads(request)
            try:
                self._requests[name](tag, *words)
            except Exception as error:
                self.reply(tag, _ending(error))

    def joined(self, tag: int) -> None:
        """Replies what the cluster is and has."""
        resources = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        free = self._ray.available_resources()
        nodes = [Node(r.get("CPU", 0), r.get("GPU", 0), r.get("memory", 0)) for r in resources]
        here = f"{socket.gethostname()} ({self._ray.util.get_node_ip_address()})"
        cluster = Joined(self._control, tuple(nodes), free.get("CPU", 0), free.get("GPU", 0), here)
        self.reply(tag, cluster)

    def start(self, tag: int, number: int, actor: Actor) -> None:
        """Starts an actor, in the place of the one of that number; replies where it is."""
        self.end(number)
        self._actors[number] = self._class.options(
            num_cpus=actor.cpus,
            num_gpus=actor.gpus,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1,
            scheduling_strategy="SPREAD",
        ).remote(actor.path, actor.folder, actor.threads, actor.gpus)
        self._later(tag, self._actors[number].place.remote())

    def answer(self, tag: int, number: int, message: bytes) -> None:
        """Replies what an actor answers."""
        self._later(tag, self._actors[number].answer.remote(message))

    def kill(self, tag: int, number: int) -> None:
        """Ends an actor."""
        self.end(number)
        self.reply(tag, None)

    def end(self, number: int) -> None:
        """Ends an actor, if there is one of that number."""
        if (actor := self._actors.pop(number, None)) is not None:
            self._ray.kill(actor, no_restart=True)

    def _later(self, tag: int, reference: Any) -> None:
        def reply(future: Future[Any]) -> None:
            error = future.exception()
            self.reply(tag, future.result() if error is None else _ending(error))

        reference.future().add_done_callback(reply)


def _ending(error: BaseException) -> RuntimeError:
    """How an actor has ended, as it continues "the last one"; all that Ray says is a note."""
    message = str(error)
    if "its node has died" in message:
        ending = "with its node"
    elif "low on memory" in message or "OutOfMemory" in message:
        ending = "for want of memory"
    elif type(error).__name__.startswith("Actor"):
        ending = "without a word, perhaps for want of memory"
    else:
        ending = f"with {type(error).__name__}: {first_line(error)}"
    return RuntimeError(ending, message)


def main() -> None:
    """Serves its parent."""
    requests, replies = own_pipes()
    opening = receive(requests)
    if opening is None:
        return
    sys.path[:], address = pickle.loads(opening)
    try:
        gateway = Gateway(replies, address)
    except Exception as error:
        send(replies, pickle.dumps((0, RuntimeError(" ".join(str(error).split()), ""))))
        os._exit(1)  # whatever threads Ray has left
    gateway.reply(0, None)
    gateway.serve(requests)
    import ray

    ray.shutdown()
    os._exit(0)
