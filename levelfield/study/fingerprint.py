"""Hash of what a cell is made from: whether its answers are those of the current study."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.extensions import entries
from levelfield.io.problems import shown
from levelfield.study.ask.callable_worker import GROUP
from levelfield.study.ask.files import file_of
from levelfield.study.ask.requests import request_record
from levelfield.study.ask.systems import technique_identity
from levelfield.study.cells import CellKey, CellRequest
from levelfield.study.plan import CallableSource, CommandSource, FilesSource, Plan, TechniqueSource


@dataclass(frozen=True)
class Fingerprint:
    """What a cell is made from.

    Attributes:
        answers: sha256 over all that determines the raw answers.
        texts: sha256 over that and the steps of post-processing.
    """

    answers: str
    texts: str


def fingerprint(plan: Plan, key: CellKey, requests: Sequence[CellRequest]) -> Fingerprint:
    """Returns the hash of what the answers and texts of a cell depend on.

    For the answers: the source as the study file has it, without time limits and retries; the
    content of the files below the study file's folder that the command names, of the callable's
    module if it is there, or of the cell's file; and the requests. Other files that a command reads
    (a model, say) are not included. A technique is its signature, with the checksums of models and
    guides.

    Raises:
        UserError: a model or guide of a technique is not on this machine.
    """
    system = plan.system(key.system)
    folder = plan.file.parent
    definition: list[object] = [type(system.source).__name__]
    files: list[Path] = []
    match system.source:
        case CommandSource() as source:
            files = [folder / part for word in source.command for part in _file_names(word)]
            definition += [source.command, dict(source.environment)]
        case CallableSource() as source:
            module = source.target.partition(":")[0].replace(".", "/")
            files = [folder / f"{module}.py", folder / module / "__init__.py"]
            installed = entries(GROUP).get(source.target)
            versions = [installed.dist.version] if installed and installed.dist else []
            definition += [source.target, dict(source.options), versions]
        case FilesSource() as source:
            files = [file_of(source, key, folder)]
            definition += [source.pattern, source.format, dict(source.mapping)]
        case TechniqueSource() as source:
            try:
                definition += technique_identity(source)
            except UserError as error:
                raise UserError(f"system {shown(system.name)}: {error}") from error
    home = None if isinstance(system.source, FilesSource) else folder.resolve()
    content = [sha for file in files if (sha := _content(file, home))]
    answers = _sha256([definition, content, [request_record(request) for request in requests]])
    texts: list[object] = [answers, system.postprocess]
    if references := [request.references for request in requests if request.references]:
        texts.append(references)
    return Fingerprint(answers, _sha256(texts))


def _file_names(word: str) -> list[str]:
    """Returns parts of a command's word that may be file names: `gen.py`, `--model=gen.bin`."""
    _, equals, value = word.partition("=")
    return [word, value] if equals else [word]


def _content(file: Path, home: Path | None) -> str:
    """Returns the sha256 of a file; empty if it is missing or not below `home`."""
    try:
        file = file.resolve()
        if not file.is_file() or (home and not file.is_relative_to(home)):
            return ""
        stat = file.stat()
        return _content_of(file, stat.st_size, stat.st_mtime_ns)
    except (OSError, ValueError):  # a word of a command need not be the name of a file
        return ""


@functools.lru_cache(maxsize=1_000)
def _content_of(file: Path, size: int, mtime_ns: int) -> str:  # noqa: ARG001 (a changed file)
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _sha256(value: object) -> str:
    content = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(content.encode()).hexdigest()
