"""P(middle | both sides) from causal models that were trained to fill in the middle.

A model reads `<|fim_prefix|> left <|fim_suffix|> right <|fim_middle|>` and goes on with what stood
between (Bavarian et al. 2022), ended by EOS. `levelfield train infiller --family causal` makes such
models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from levelfield.core.errors import ModelError
from levelfield.models.batching import unique, window
from levelfield.models.causal import BatchedCausalModel
from levelfield.models.contracts import Gapped, LogLikelihoods, Target
from levelfield.models.gaps import FIM
from levelfield.models.load import load
from levelfield.models.loading import Loading


class FimModel:
    """A causal model behind the seam of infilling models.

    Blanks before the gap are not read: they belong to the first token after it.

    Raises:
        ModelError: the tokenizer lacks the markers.
    """

    gap_token = ""

    def __init__(self, model: BatchedCausalModel) -> None:
        self._model = model
        marks = [model.token_id(mark) for mark in FIM]
        if None in marks or model.end_id is None:
            raise ModelError(
                f"the causal model's tokenizer has no {FIM[0]}, {FIM[1]} and {FIM[2]}, so it was "
                "not trained to fill gaps; take form=conditional, or a model of `levelfield train "
                "infiller --family causal`"
            )
        self._prefix, self._suffix, self._middle = (mark for mark in marks if mark is not None)
        self._end = model.end_id

    @property
    def vocabulary_size(self) -> int:
        return self._model.vocabulary_size

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Vocabulary ids of texts, without special tokens."""
        return self._model.token_ids(texts)

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Where in a text each of its tokens ends, in characters."""
        return self._model.token_ends(texts)

    def log_likelihood(
        self, sources: Sequence[Gapped], targets_per_source: Sequence[Sequence[Target]]
    ) -> LogLikelihoods:
        """log P(target token | both sides, target tokens before it).

        Of sources longer than the model takes with the target, what is nearest to the gap is kept;
        of a longer target the beginning is scored.
        """
        pairs = [
            (source, target)
            for source, targets in zip(sources, targets_per_source, strict=True)
            for target in targets
        ]
        distinct, place = unique(pairs)
        limit = self._model.limit
        near = [source.near(64 * limit) for source, _ in distinct]
        lefts = self.token_ids([source.left.rstrip() for source in near])
        rights = self.token_ids([source.right for source in near])
        bodies = self.token_ids([target.text[: 64 * limit] for _, target in distinct])
        prompts, wanted, source_cut, target_cut = [], [], [], []
        for (source, target), left, right, body in zip(
            distinct, lefts, rights, bodies, strict=True
        ):
            ids = [*body, *([self._end] if target.end and body else [])]
            scored = ids[: limit - len(FIM)]
            on_left, on_right = window(len(left), len(right), limit - len(FIM) - len(scored))
            kept = left[len(left) - on_left :]
            prompts.append([self._prefix, *kept, self._suffix, *right[:on_right], self._middle])
            wanted.append(scored)
            source_cut.append(
                on_left + on_right < len(left) + len(right) or source.near(64 * limit) != source
            )
            target_cut.append(len(scored) < len(ids) or len(target.text) > 64 * limit)
        log_p = self._model.log_p_after(prompts, wanted)
        at = iter(place)
        found = [[next(at) for _ in targets] for targets in targets_per_source]
        return LogLikelihoods(
            log_p=[[log_p[i] if wanted[i] else np.empty(0) for i in mine] for mine in found],
            source_cut=[any(source_cut[i] for i in mine) for mine in found],
            target_cut=[[target_cut[i] for i in mine] for mine in found],
        )


def load_fim(name: str, loading: Loading) -> FimModel:
    """The causal model of this name as one that fills gaps; its weights are those of `causal`.

    Raises:
        ModelError: there is no such model, or its tokenizer lacks the markers.
    """
    # a model of another engine stands behind a check, which has all its members
    return FimModel(cast(BatchedCausalModel, load("causal", name, loading)))
