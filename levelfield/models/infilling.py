"""P(target | source) from encoder-decoders: gaps, cuts and what is scored.

A model reads `<|fim_prefix|> left <|fim_suffix|> right <|fim_middle|>` and goes on with what stood
between (Bavarian et al. 2022), ended by EOS. `levelfield train infiller --family causal` makes such
models.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.models.causal import BatchedCausalModel
from levelfield.models.contracts import (
    FIM,
    PLAIN,
    Gapped,
    GapStyle,
    LogLikelihoods,
    Target,
)
from levelfield.models.tokens import RecentResults, Tokens, unique, window

WITHOUT_LIMIT = 512
"""Tokens read by an encoder-decoder whose configuration names no limit: the length of the texts
that T5 was trained on."""


def positions(config: Any) -> int:
    """Returns how many tokens an encoder-decoder reads."""
    limits = (getattr(config, name, None) for name in ("max_position_embeddings", "n_positions"))
    return next((int(limit) for limit in limits if limit), WITHOUT_LIMIT)


class ScoredTarget(NamedTuple):
    """A target of a source, and where its result goes.

    Attributes:
        source: its place among the sources of a batch.
        ids: what is scored of the target.
        results: the log-probabilities of the source's targets.
    """

    source: int
    ids: list[int]
    target: Target
    results: dict[Target, Floats]


class GapTokens:
    """How an encoder-decoder reads sources with a gap, and what its decoder begins with.

    Args:
        style: how gaps are marked.

    Raises:
        ModelError: the tokenizer lacks a token of the style.
    """

    def __init__(self, tokenizer: Any, config: Any, style: GapStyle) -> None:
        self._tokens = Tokens(tokenizer, marks=True)
        self._style = style
        self._limit = positions(config)
        self._gap_id = self._single_id(style.token) if style.token else None
        opening = (
            self._tokens.before if style is PLAIN else map(self._single_id, style.decoder_prefix)
        )
        self._start = [config.decoder_start_token_id, *opening]

    def _single_id(self, token: str) -> int:
        id = self._tokens.single(token)
        if id is None:
            raise ModelError(f"the model's tokenizer does not know the token {token}")
        return id

    def _source_ids(self, sources: Sequence[Gapped]) -> tuple[list[list[int]], list[bool]]:
        return self._tokens.fit(sources, self._limit, join=self._style.join, gap_id=self._gap_id)


class BatchedInfillingModel(GapTokens, abc.ABC):
    """Base of encoder-decoder models that score batches of ids.

    Equal sources are read once, and equal targets of a source scored once, also where another
    metric asks for them next.

    Attributes:
        gap_token: marks a gap; a text that contains it can't be scored.
        source_limit: how many tokens of a source the model takes, special ones around it not
            counted.
    """

    def __init__(self, tokenizer: Any, config: Any, style: GapStyle) -> None:
        super().__init__(tokenizer, config, style)
        self._end = [tokenizer.eos_token_id]
        self._vocabulary_size = int(config.vocab_size)
        self._recent: RecentResults[tuple[Gapped, Target], Floats] = RecentResults()
        self.gap_token, self.source_limit = style.token, self._limit - self._tokens.around

    @property
    def vocabulary_size(self) -> int:
        return self._vocabulary_size

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns vocabulary ids of texts, without special tokens."""
        return self._tokens.ids(texts)

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns where in a text each of its tokens ends, in characters; of a text that is too
        long to be a target, its beginning's. Empty where the tokenizer can't say."""
        tokenizer = self._tokens.tokenizer
        if not texts or not tokenizer.is_fast:
            return [[] for _ in texts]
        near = [text[: 64 * self._limit] for text in texts]
        encoded = tokenizer(near, add_special_tokens=False, return_offsets_mapping=True)
        return [[end for _, end in spans] for spans in encoded["offset_mapping"]]

    def log_likelihood(
        self, sources: Sequence[Gapped], targets_per_source: Sequence[Sequence[Target]]
    ) -> LogLikelihoods:
        """Returns log P(target token | source, target tokens before it), for each target of each
        source.

        Sources longer than the model takes keep the gap and the text nearest to it; targets
        longer than that keep their beginning.
        """
        distinct, place = unique(sources)
        results: list[dict[Target, Floats]] = [{} for _ in distinct]
        for i, targets in zip(place, targets_per_source, strict=True):
            results[i].update(dict.fromkeys(targets, np.empty(0)))
        source_ids, source_cut = self._source_ids(distinct)
        target_ids, cut_targets = self._target_ids(
            [target for targets in results for target in targets]
        )
        self._score_new(distinct, source_ids, target_ids, results)
        return LogLikelihoods(
            log_p=[
                [results[i][target] for target in targets]
                for i, targets in zip(place, targets_per_source, strict=True)
            ],
            source_cut=[source_cut[i] for i in place],
            target_cut=[[target in cut_targets for target in ts] for ts in targets_per_source],
        )

    def _score_new(
        self,
        sources: Sequence[Gapped],
        source_ids: Sequence[list[int]],
        target_ids: Mapping[Target, list[int]],
        results: Sequence[dict[Target, Floats]],
    ) -> None:
        """Fills in the results of all targets: those that are kept, and those that are new."""
        new = []
        for source, targets in zip(sources, results, strict=True):
            kept = {t: self._recent[source, t] for t in targets if (source, t) in self._recent}
            targets |= kept
            new.append({t: log_p for t, log_p in targets.items() if t not in kept})
        places = [i for i, targets in enumerate(new) if targets]
        self._score([source_ids[i] for i in places], target_ids, [new[i] for i in places])
        for i in places:
            results[i].update(new[i])
            for target, log_p in new[i].items():
                log_p.flags.writeable = False  # callers share the array
                tokens = 1 + len(source_ids[i]) + len(log_p)
                self._recent.keep((sources[i], target), log_p, tokens)

    @abc.abstractmethod
    def _score(
        self,
        sources: Sequence[list[int]],
        ids: Mapping[Target, list[int]],
        results: Sequence[dict[Target, Floats]],
    ) -> None:
        """Fills in the log-probabilities of the targets of each source.

        Args:
            sources: ids with special tokens.
            ids: of each target what is scored of it, the end token among it; may be empty.
            results: the targets of each source, and where the result of each goes.
        """

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


def fim_prompt(
    marks: Sequence[int], left: Sequence[int], right: Sequence[int], room: int
) -> tuple[list[int], bool]:
    """Returns both sides of a gap as models read them that fill in the middle, at most `room`
    tokens; and whether a side was cut, of which what is nearest to the gap is kept.

    Args:
        marks: the ids of `FIM`.
    """
    prefix, suffix, middle = marks
    on_left, on_right = window(len(left), len(right), room - len(FIM))
    ids = [prefix, *left[len(left) - on_left :], suffix, *right[:on_right], middle]
    return ids, on_left + on_right < len(left) + len(right)


class FimModel:
    """A causal model with the interface of infilling models.

    Blanks before the gap are not read: they belong to the first token after it.

    Raises:
        ModelError: the tokenizer lacks the markers.
    """

    gap_token = ""

    def __init__(self, model: BatchedCausalModel) -> None:
        self._model = model
        self.vocabulary_size = model.vocabulary_size
        marks = [model.token_id(mark) for mark in FIM]
        if None in marks or model.end_id is None:
            raise ModelError(
                f"the causal model's tokenizer has no {FIM[0]}, {FIM[1]} and {FIM[2]}, so it was "
                "not trained to fill gaps; use form=conditional, or a model of `levelfield train "
                "infiller --family causal`"
            )
        self._marks = [mark for mark in marks if mark is not None]
        self._end = model.end_id

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns vocabulary ids of texts, without special tokens."""
        return self._model.token_ids(texts)

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns where in a text each of its tokens ends, in characters."""
        return self._model.token_ends(texts)

    def log_likelihood(
        self, sources: Sequence[Gapped], targets_per_source: Sequence[Sequence[Target]]
    ) -> LogLikelihoods:
        """Returns log P(target token | both sides, target tokens before it).

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
        prompts, scored_ids, source_cut, target_cut = [], [], [], []
        for (source, target), left, right, body in zip(
            distinct, lefts, rights, bodies, strict=True
        ):
            ids = [*body, *([self._end] if target.end and body else [])]
            scored = ids[: limit - len(FIM)]
            prompt, is_cut = fim_prompt(self._marks, left, right, limit - len(scored))
            prompts.append(prompt)
            scored_ids.append(scored)
            source_cut.append(is_cut or source.near(64 * limit) != source)
            target_cut.append(len(scored) < len(ids) or len(target.text) > 64 * limit)
        log_p = self._model.log_p_after(prompts, scored_ids)
        numbers = iter(place)
        pairs_per_source = [[next(numbers) for _ in targets] for targets in targets_per_source]
        return LogLikelihoods(
            log_p=[
                [log_p[i] if scored_ids[i] else np.empty(0) for i in pairs]
                for pairs in pairs_per_source
            ],
            source_cut=[any(source_cut[i] for i in pairs) for pairs in pairs_per_source],
            target_cut=[[target_cut[i] for i in pairs] for pairs in pairs_per_source],
        )
