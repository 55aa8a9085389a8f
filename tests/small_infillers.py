"""Infillers that take a second to train."""

from __future__ import annotations

from typing import Any

from levelfield.train.corpus import tokenise
from levelfield.train.infiller import Size
from levelfield.train.infiller.examples import InfillingFormat, sentence_ends, train_tokenizer
from levelfield.train.infiller.infilling import Infilling, new_model

DOCUMENTS = [
    f"The {who} {did} by the {where}. Nobody saw the {who}!\nThen it rained on the {where}."
    for who in ("goat", "clerk", "twin", "judge")
    for did in ("waited", "sang", "slept")
    for where in ("mill", "river", "gate", "stairs", "well")
]
TINY = Size(16, 1, 32, head=8)


class Killed(BaseException):
    """Stands for a kill."""


def infilling(family: str = "t5", batch: int = 4) -> tuple[Any, Infilling, Any]:
    """A model with random weights, its task and its tokenizer."""
    tokenizer = train_tokenizer(DOCUMENTS, 350)
    model = new_model(family, TINY, len(tokenizer), 0, positions=128)
    ends = sentence_ends(tokenizer, len(tokenizer))
    corpus = tokenise(DOCUMENTS, tokenizer)
    task = Infilling(corpus, InfillingFormat(tokenizer, family), ends, batch, 24, 0, "start")
    return model, task, tokenizer
