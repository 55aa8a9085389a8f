"""P(target | source) from encoder-decoders, whatever computes: gaps, cuts and what is scored."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.models.batching import unique
from levelfield.models.contracts import Gapped, InfillingModel, LogLikelihoods, Target
from levelfield.models.gaps import GAP_STYLES, PLAIN, GapStyle
from levelfield.models.loading import Loading
from levelfield.models.resolve import Resolved, resolve
from levelfield.models.tokens import Tokens

WITHOUT_LIMIT = 512
"""Tokens read by an encoder-decoder whose configuration names no limit, as T5's need not: T5 was
trained on so many."""


def positions(config: Any) -> int:
    """How many tokens an encoder-decoder reads."""
    limits = (getattr(config, name, None) for name in ("max_position_embeddings", "n_positions"))
    return next((int(limit) for limit in limits if limit), WITHOUT_LIMIT)


def load_gap_filler(
    name: str,
    loading: Loading,
    encoder_decoder: Callable[[Resolved, Loading, GapStyle], InfillingModel],
) -> InfillingModel:
    """The model of this name that fills gaps: an encoder-decoder of a family whose gap format is
    known, or a causal model that was trained to fill in the middle.

    Args:
        encoder_decoder: loads one, in the engine that computes.

    Raises:
        ModelError: there is no such model, or it is not one that fills gaps.
    """
    resolved = resolve(name, loading)
    if resolved.kind == "causal":
        from levelfield.models.fim import load_fim

        return load_fim(name, loading)
    if resolved.model_type not in GAP_STYLES:
        raise ModelError(
            f"model '{name}' is a {resolved.model_type} {resolved.kind} and fills no gaps that "
            f"we know the format of; families that do: {', '.join(GAP_STYLES)}"
        )
    return encoder_decoder(resolved, loading, GAP_STYLES[resolved.model_type])


class BatchedInfillingModel(abc.ABC):
    """Base of the encoder-decoder models of an engine that scores batches of ids.

    Equal sources are read once, and equal targets of a source scored once.

    Args:
        style: how gaps are marked.
    """

    def __init__(self, tokenizer: Any, config: Any, style: GapStyle) -> None:
        self._tokens = Tokens(tokenizer, marks=True)
        self._end = [tokenizer.eos_token_id]
        self._style = style
        self._vocabulary_size = int(config.vocab_size)
        self._limit = positions(config)
        self._gap_id = self._single_id(style.token) if style.token else None
        given = self._tokens.before if style is PLAIN else map(self._single_id, style.given)
        self._start = [config.decoder_start_token_id, *given]

    @property
    def gap_token(self) -> str:
        """What marks a gap; a text that contains it can't be scored."""
        return self._style.token

    @property
    def vocabulary_size(self) -> int:
        return self._vocabulary_size

    @property
    def source_limit(self) -> int:
        """How many tokens of a source the model takes, special ones around it not counted."""
        return int(self._limit) - len(self._tokens.before) - len(self._tokens.after)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Vocabulary ids of texts, without special tokens."""
        return self._tokens.ids(texts)

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Where in a text each of its tokens ends, in characters; of a text that is too long to be
        a target, its beginning's. Empty where the tokenizer can't say."""
        tokenizer = self._tokens.tokenizer
        if not texts or not tokenizer.is_fast:
            return [[] for _ in texts]
        near = [text[: 64 * self._limit] for text in texts]
        encoded = tokenizer(near, add_special_tokens=False, return_offsets_mapping=True)
        return [[end for _, end in spans] for spans in encoded["offset_mapping"]]

    def log_likelihood(
        self, sources: Sequence[Gapped], targets_per_source: Sequence[Sequence[Target]]
    ) -> LogLikelihoods:
        """log P(target token | source, target tokens before it), for each target of each source.

        Sources longer than the model takes keep the gap and the text nearest to it; targets
        longer than that keep their beginning.
        """
        distinct, place = unique(sources)
        wanted: list[dict[Target, Floats]] = [{} for _ in distinct]
        for at, targets in zip(place, targets_per_source, strict=True):
            wanted[at].update(dict.fromkeys(targets, np.empty(0)))
        source_ids, source_cut = self._source_ids(distinct)
        target_ids, cut_targets = self._target_ids([t for of_one in wanted for t in of_one])
        self._score(source_ids, target_ids, wanted)
        return LogLikelihoods(
            log_p=[
                [wanted[at][target] for target in targets]
                for at, targets in zip(place, targets_per_source, strict=True)
            ],
            source_cut=[source_cut[at] for at in place],
            target_cut=[[target in cut_targets for target in ts] for ts in targets_per_source],
        )

    @abc.abstractmethod
    def _score(
        self,
        sources: Sequence[list[int]],
        ids: Mapping[Target, list[int]],
        wanted: Sequence[dict[Target, Floats]],
    ) -> None:
        """Fills in the log-probabilities of the targets wanted of each source.

        Args:
            sources: ids with special tokens.
            ids: of each target what is scored of it, the end token among it; may be empty.
            wanted: the targets of each source, and where the result of each goes.
        """

    # -- tokens

    def _single_id(self, token: str) -> int:
        found = self._tokens.single(token)
        if found is None:
            raise ModelError(f"the model's tokenizer does not know the token {token}")
        return found

    def _source_ids(self, sources: Sequence[Gapped]) -> tuple[list[list[int]], list[bool]]:
        return self._tokens.fit(sources, self._limit, join=self._style.join, gap_id=self._gap_id)

    def _target_ids(self, targets: Sequence[Target]) -> tuple[dict[Target, list[int]], set[Target]]:
        distinct, _ = unique(targets)
        # no token of a usual vocabulary spans 64 characters: this cut never shows in what is kept
        texts = [target.text[: 64 * self._limit] for target in distinct]
        room = self._limit - len(self._start)
        ids: dict[Target, list[int]] = {}
        cut: set[Target] = set()
        for target, text, body in zip(distinct, texts, self._tokens.ids(texts), strict=True):
            scored = [*body, *(self._end if target.end else ())] if body else []
            if len(scored) > room or len(text) < len(target.text):
                cut.add(target)
            ids[target] = scored[:room]
        return ids, cut
