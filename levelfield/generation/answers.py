"""The file of a run's texts: written text by text, so that a run that is killed goes on.

Each line has what `levelfield score` reads, and the signature, so that texts of other choices are
never taken for those of this run. A line that a crash has cut short does not count as an answer, so
its request is asked again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from levelfield.core.errors import UserError
from levelfield.core.strings import json_text
from levelfield.generation.contract import Answer, Request
from levelfield.io import fields
from levelfield.io.appending import appending, whole_lines
from levelfield.io.json_input import parse_json
from levelfield.io.problems import Wrong, printable, shown
from levelfield.io.writing import STDOUT, atomic_writer, check_writable

_MEND = "name another file, or overwrite it with --force"


@dataclass(frozen=True)
class RunChoices:
    """Everything that a run's texts depend on beside the requests.

    Attributes:
        system: the name under which the texts are compared.
        seed: of the draws.
        signature: of the technique, with the decoding.
    """

    system: str
    seed: int
    signature: str

    def record(self, answer: Answer) -> dict[str, Any]:
        """Returns the line of an answer."""
        record = {
            "id": answer.id,
            "text": answer.text,
            "prompt": answer.prompt,
            "continuation": answer.continuation,
            "control": dict(answer.control),
            "system": self.system,
            "seed": self.seed,
            "tokens": answer.tokens,
            "forward_passes": answer.forward_passes,
            "seconds": round(answer.seconds, 4),
            "signature": self.signature,
        }
        if answer.source:
            record["source"] = answer.source
        if answer.references:
            record["references"] = list(answer.references)
        if answer.backward_passes:
            record["backward_passes"] = answer.backward_passes
        return record | ({"extra": dict(answer.extra)} if answer.extra else {})

    def differences(self, record: Mapping[str, Any]) -> str:
        """Returns the choices in which the run of a line differs from this one, in words."""
        current, recorded = _facts(asdict(self)), _facts(record)
        return ", ".join(
            f"{name} {printable(recorded.get(name, 'not given'))}, "
            f"now {printable(current.get(name, 'not given'))}"
            for name in dict.fromkeys((*current, *recorded))
            if current.get(name) != recorded.get(name)
        )


def _facts(record: Mapping[str, Any]) -> dict[str, str]:
    technique, *fields = str(record.get("signature")).split("|")
    choices = dict(field.partition(":")[::2] for field in fields)
    run = {name: str(record.get(name)) for name in ("system", "seed")}
    return {"technique": technique, **choices, **run}


class AnswerFile:
    """A file of answers that one process at a time writes.

    Attributes:
        kept: answers of earlier runs by id.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        choices: RunChoices,
        answers: Sequence[Answer],
        write: Callable[[bytes], None],
    ) -> None:
        self.kept: dict[str, Answer] = {}
        for answer in answers:
            self.kept.setdefault(answer.id, answer)
        self._name, self._path = name, path
        self._choices = choices
        self._write = write
        self._ids = [answer.id for answer in answers]

    def append(self, answer: Answer) -> None:
        """Writes an answer at once.

        Raises:
            UserError: it can't be written.
        """
        with _naming(self._name):
            self._write(self._line(answer).encode("utf-8", "backslashreplace"))
        self._ids.append(answer.id)

    def finish(self, answers: Sequence[Answer]) -> None:
        """Puts all answers into their order."""
        if [answer.id for answer in answers] != self._ids:
            with _naming(self._name), atomic_writer(self._path) as file:
                file.writelines(map(self._line, answers))

    def _line(self, answer: Answer) -> str:
        return json_text(self._choices.record(answer)) + "\n"


def _answers(
    name: str, lines: Iterable[bytes], choices: RunChoices, requests: Sequence[Request]
) -> Iterator[Answer]:
    """Yields the answers that earlier runs have written.

    Raises:
        UserError: these are texts of other choices or requests, or something else.
    """
    requests_by_id = {request.id: request for request in requests}
    for number, line in enumerate(lines, 1):
        where = f"{name}:{number}"
        try:
            record = parse_json(line.decode())
            answer = _answer(record)
        except (ValueError, KeyError, TypeError, AttributeError):
            problem = "is not an answer of `levelfield generate`"
            raise UserError(f"{where}: {problem}; {_MEND}") from None
        if differences := choices.differences(record):
            problem = f"holds texts of other choices ({differences})"
            raise UserError(f"{name}: {problem}; {_MEND}")
        if answer.text not in (answer.prompt + answer.continuation, answer.continuation):
            problem = f"the text of {shown(answer.id)} is not its prompt and its continuation"
            raise UserError(f"{where}: {problem}, so it was edited; {_MEND}")
        request = requests_by_id.get(answer.id)
        if request is None:
            raise UserError(f"{where}: {shown(answer.id)} is not among the requests; {_MEND}")
        if _request_of(answer) != _request_of(request):
            fields = "source, references" if request.source or answer.source else "prompt"
            problem = f"{shown(answer.id)} differs in {fields} or control"
            raise UserError(f"{where}: {problem}; {_MEND}")
        yield answer


def _request_of(entry: Answer | Request) -> tuple[object, ...]:
    return entry.prompt, dict(entry.control), entry.source, tuple(entry.references)


def _answer(record: Mapping[str, Any]) -> Answer:
    """Returns the answer that a line holds.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it holds none.
    """
    extra = record.get("extra", {})
    backward_passes = record.get("backward_passes", 0)
    counts = record["tokens"], record["forward_passes"], backward_passes
    if not (isinstance(extra, Mapping) and all(type(count) is int for count in counts)):
        raise Wrong("is no answer")
    return Answer(
        id=fields.string(record["id"]),
        prompt=fields.string(record["prompt"]),
        continuation=fields.string(record["continuation"]),
        text=fields.string(record["text"]),
        tokens=record["tokens"],
        seconds=float(record["seconds"]),
        forward_passes=record["forward_passes"],
        backward_passes=backward_passes,
        control=fields.control(record["control"], False),
        extra=extra,
        source=fields.string(record.get("source", "")),
        references=fields.strings(record.get("references", []), False),
    )


class AnswerStream:
    """Standard output, a device or a pipe, where nothing is kept.

    Attributes:
        kept: no answers.
    """

    def __init__(self, choices: RunChoices, file: TextIO) -> None:
        self.kept: dict[str, Answer] = {}
        self._choices = choices
        self._file = file

    def append(self, answer: Answer) -> None:
        """Writes an answer at once."""
        self._file.write(json_text(self._choices.record(answer)) + "\n")
        self._file.flush()

    def finish(self, _: Sequence[Answer]) -> None:
        """Leaves them in the order in which they were written."""


@contextlib.contextmanager
def answer_file(
    path: str, choices: RunChoices, requests: Sequence[Request], *, force: bool = False
) -> Iterator[AnswerFile | AnswerStream]:
    """Opens a file to append answers to, with those it already has, for this process alone.

    Args:
        path: `-` is standard output.
        choices: what the texts depend on.
        requests: what is asked for.
        force: whether a file of other choices or requests is overwritten.

    Raises:
        UserError: it can't be written, another process is writing it, or it holds something else.
    """
    check_writable(path)
    real = Path(os.path.realpath(path))
    if path == STDOUT or (real.exists() and not real.is_file()):
        with atomic_writer(path) as stream:
            yield AnswerStream(choices, stream)
        return
    name = printable(path)
    with _naming(name):
        real.open("ab").close()  # says why it can't be written, which a lock does not
    with _alone(name, real), contextlib.ExitStack() as stack:
        with _naming(name):
            stack.callback(_remove_if_empty, real)
            lines = list(whole_lines(real))
            try:
                answers = list(_answers(name, lines, choices, requests))
            except UserError:
                if not force:
                    raise
                lines, answers = [], []
            write = stack.enter_context(appending(real, sum(map(len, lines))))
        yield AnswerFile(name, real, choices, answers, write)


def _remove_if_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        if not path.stat().st_size:
            path.unlink()


@contextlib.contextmanager
def _alone(name: str, path: Path) -> Iterator[None]:
    """Keeps other processes out.

    Raises:
        UserError: another process is in.
    """
    import filelock

    lock = filelock.FileLock(path.with_name(f".levelfield-{path.name}.lock"))
    with _naming(name):
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            problem = "another process is writing it; wait until it ends, or name another file"
            raise UserError(f"{name}: {problem}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Says of which file it is that the system refuses something."""
    try:
        yield
    except OSError as error:
        reason = printable(error.strerror or str(error))
        raise UserError(f"{name}: can't be written: {reason}") from error
