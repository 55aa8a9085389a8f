"""A technique that needs no model: its texts say what they were made from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from levelfield.core.sample import Control
from levelfield.core.signature import signature
from levelfield.generation.contract import Answer, Decoding, Request, check_requests
from levelfield.generation.table import TechniqueEntry

ENTRY = TechniqueEntry(
    "stub", "stub_technique:Stub", "none", "Says what it reads.", "sentiment", "2F", "Nobody (2000)"
)


@dataclass(frozen=True, kw_only=True)
class Stub:
    """Writes a word that depends on all that a text may depend on.

    Args:
        strength: of nothing,
            or of little.
        kind: of word.
        guide: nowhere.
    """

    name: ClassVar[str] = "stub"
    asked: ClassVar[list[str]] = []
    before: ClassVar[Callable[[Request], object] | None] = None
    strength: float = 1.0
    kind: Literal["long", "short"] = "long"
    guide: str = ""

    @property
    def signature(self) -> str:
        return signature(self.name, {"strength": self.strength, "kind": self.kind})

    def refusal(self, control: Control) -> str:
        return f"{', '.join(control)} is not supported" if set(control) - {"sentiment"} else ""

    def generate(
        self,
        requests: Sequence[Request],
        *,
        decoding: Decoding = Decoding(),  # noqa: B008
        seed: int = 0,
        **_: Any,
    ) -> Iterator[Answer]:
        check_requests(self, requests)
        # those of the same control together, as techniques on a model do it
        for request in sorted(requests, key=lambda request: str(request.control)):
            if Stub.before:
                Stub.before(request)
            Stub.asked.append(request.id)
            made_from = (self, request.id, request.prompt, request.control, seed, decoding)
            word = hashlib.sha256(repr(made_from).encode()).hexdigest()[: decoding.max_new_tokens]
            yield Answer(
                id=request.id,
                prompt=request.prompt,
                continuation=f" {word}",
                text=f"{request.prompt} {word}",
                tokens=4,
                seconds=0.5,
                forward_passes=8,
                control=request.control,
                extra={"prompt_cut": True} if len(request.prompt) > 100 else {},
            )

    def log_probs(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError
