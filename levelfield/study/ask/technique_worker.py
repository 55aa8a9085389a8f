"""The process of a technique: a cell as a JSON line on stdin, its answers as JSONL on stdout.

Run by `levelfield study run` as
`python -m levelfield.study.ask.technique_worker NAME OPTIONS DECODING`. For each cell it writes
`{"begin": true}` when all models are loaded, a line per answer, and `{"end": true}`, or
`{"error": …}` if asking again is of no use.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from levelfield.core.errors import LevelfieldError, UserError
from levelfield.generation.contract import Decoding, Request, Technique
from levelfield.generation.table import TechniqueFile, make_technique
from levelfield.generation.technique import BatchedTechnique, LocalTechnique
from levelfield.study.ask.systems import identity, technique_identity
from levelfield.study.plan import TechniqueSource

_CHANGED = "{} has changed since levelfield was started; start levelfield again"


def main(name: str, options: str, decoding: str) -> None:
    """Answers the cells on stdin; whatever is printed meanwhile goes to stderr."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n") as out:
        os.dup2(2, 1)

        def write(record: Mapping[str, Any]) -> None:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()  # what was written so far belongs to this cell
            out.write(json.dumps(record) + "\n")
            out.flush()

        values, how = json.loads(options), Decoding(**json.loads(decoding))
        file_identity: Sequence[str] = ()
        if TechniqueFile.parse(name):
            file_identity = technique_identity(TechniqueSource(name, options=values, decoding=how))
        worker = TechniqueWorker(make_technique(name, values), how, file_identity)
        for line in sys.stdin.buffer:
            try:
                for record in worker.answers(json.loads(line)):
                    write(record)
            except LevelfieldError as error:
                write({"error": str(error)})


class TechniqueWorker:
    """A technique that is asked for one cell after the other.

    Args:
        identity: of a class in a file, when the file was run.
    """

    def __init__(
        self, technique: Technique, decoding: Decoding, identity: Sequence[str] = ()
    ) -> None:
        self._technique = technique
        self._decoding = decoding
        self._identity = identity
        self._loaded: set[frozenset[str]] = set()

    def answers(self, cell: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the lines of a cell.

        Raises:
            LevelfieldError: asking again is of no use.
        """
        if cell["identity"] != (self._identity or identity(self._technique, self._decoding)):
            changed = "the file of the technique" if self._identity else "a model or guide"
            raise UserError(_CHANGED.format(changed))
        requests = [_request(record) for record in cell["requests"]]
        self._load(requests)
        yield {"begin": True}
        by_id = {request.id: request for request in requests}
        answers = self._technique.generate(requests, decoding=self._decoding, seed=cell["seed"])
        for answer in answers:
            yield {
                "id": answer.id,
                "text": answer.text,
                "input": self._input(by_id[answer.id]),
                "tokens": answer.tokens,
                "forward_passes": answer.forward_passes,
            }
        yield {"end": True}

    def _input(self, request: Request) -> str:
        """What the model was given; empty if that is not known."""
        technique = self._technique
        if isinstance(technique, LocalTechnique):
            return technique.input_of(request, self._decoding)
        return ""

    def _load(self, requests: Sequence[Request]) -> None:
        """Has the models loaded that these requests need, so that no text's time has it in it: by
        one token for each new combination of attributes."""
        short = replace(self._decoding, max_new_tokens=1)
        for request in requests:
            attributes = frozenset(request.control)
            if attributes not in self._loaded and isinstance(self._technique, BatchedTechnique):
                with suppress(UserError):  # the requests themselves will say it
                    list(self._technique.generate([request], decoding=short))
            self._loaded.add(attributes)


def _request(record: Mapping[str, Any]) -> Request:
    labels = {a: v if isinstance(v, str) else tuple(v) for a, v in record["labels"].items()}
    return Request(record["id"], record["prompt"], labels, record.get("source", ""))


if __name__ == "__main__":
    main(*sys.argv[1:])
