"""CBART: parallel refinements of a list of keywords (He 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import regex

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import KEYWORDS, Control
from levelfield.generation.contract import Answer, AnsweringTechnique, Decoding, Request
from levelfield.generation.table import controlled_by
from levelfield.generation.technique import BatchedTechnique
from levelfield.generation.techniques.cbart.network import Editor, editor, resolve_editor
from levelfield.generation.techniques.cbart.refinement import EditedText, Forbidden, Refined, refine
from levelfield.generation.width import TextRows
from levelfield.metrics.keywords import keywords_of
from levelfield.models.causal_tokens import WITHOUT, reads_bos
from levelfield.models.load import load
from levelfield.models.resolve import OFFLINE_EDITOR, OFFLINE_LM, resolve_causal

_BLANK_BEFORE = regex.compile(r"\s+(?=[,.;:!?)\]}]+(?:\s|$))")
"""Blanks before punctuation, as editors write that learnt tokenised texts."""


class Start(NamedTuple):
    """What is edited for a request, and whether the beginning of the prompt was cut off."""

    request: Request
    keywords: tuple[str, ...]
    draft: EditedText
    cut: bool


@dataclass(frozen=True, kw_only=True)
class CBART(BatchedTechnique):
    """Writes a text around keywords, which stay unchanged, whole and in their order.

    A pass has two steps. The encoder of the editor says for each token whether it is copied or
    replaced, or whether another one is inserted before it; then the decoder fills in all these
    places at once. The text is done when a pass changes nothing. Nothing is inserted before or
    within the prompt, or within a keyword, and another word begins after each of them, so every
    text contains every keyword as a word, whatever the editor.

    `max_new_tokens` is how many tokens the editor may add to the prompt and the keywords. If tokens
    are drawn, `chains` texts are written and the one with the lowest perplexity is kept.
    """

    name: ClassVar[str] = "cbart"
    model: str = option(
        OFFLINE_EDITOR,
        "Editor, the only model that writes: offline/editor, or a folder that `levelfield train "
        "editor` made.",
        metavar="NAME",
    )
    passes: int = option(
        10, "Maximum number of passes over a text, by default as published.", least=1
    )
    chains: int = option(
        5,
        "Number of texts to draw, by default as published; the one with the lowest perplexity is "
        "kept. Greedy decoding writes one.",
        least=1,
    )
    penalty: float = option(
        2.0,
        "Repetition penalty on all tokens of the text, by default as published, in addition to "
        "that of the decoding.",
        above=0,
    )
    eagerness: float = option(
        2.0,
        "Nats added to the logit of an insertion, since an editor that has learnt little copies "
        "too often. The published value is 0, with a good editor.",
    )
    forbidden: Forbidden = option(
        "next",
        "Action on a token whose likeliest action is not permitted: the next likeliest, or copy, "
        "as in the authors' program.",
    )
    begin: Literal["word", "any"] = option(
        "word",
        "First token of a text without a prompt: the first of a word, or any, as in the authors' "
        "program.",
    )
    stops: bool = option(
        False,
        "Allow brackets, quotes, ellipses, symbols, and tokens of several punctuation marks "
        "as fillings. The authors' program leaves out a list of 203 such tokens.",
    )
    gap_top_k: int = option(
        5,
        "Fill a gap with one of this many of the likeliest tokens that the decoding leaves, by "
        "default as published; 0 for all.",
        least=0,
    )
    gap_top_p: float = option(
        0.5,
        "Fill a gap with one of the fewest tokens that the decoding leaves whose probabilities sum "
        "to at least this, by default as published; 1 for all.",
        above=0,
        most=1,
    )
    ranker: str = option(
        OFFLINE_LM, "Causal model whose perplexity decides between chains.", metavar="NAME"
    )

    @property
    def choices(self) -> Mapping[str, str]:
        shown = self._shown("passes", "chains", "penalty", "eagerness", "stops", "gap_top_k")
        shown |= self._shown("gap_top_p")
        shown |= self._shown("forbidden") if self.forbidden != "next" else {}
        shown |= self._shown("begin") if self.begin != "word" else {}
        ranker = resolve_causal(self.ranker, self.loading)
        begin = {} if reads_bos(ranker) else {"ranker-bos": WITHOUT}
        return {**shown, "ranker": ranker.label, **begin}

    @property
    def caution(self) -> str:
        """What a user should know before reading the texts."""
        if self.model != OFFLINE_EDITOR:
            return ""
        return (
            f"{OFFLINE_EDITOR} keeps the keywords but writes poor English; "
            "`levelfield train editor` trains a larger one"
        )

    def _label(self, model: str) -> str:
        return resolve_editor(model, self.loading).label

    def refusal(self, control: Control) -> str:
        if others := sorted(control.keys() - {KEYWORDS}):
            hint = controlled_by(*sorted(control))
            return f"{self.name} controls keywords only, not {', '.join(others)}; {hint}"
        if not keywords_of(control):
            return f"{self.name} needs keywords to write a text around"
        return ""

    @property
    def _reads_with(self) -> Any:
        return self._editor.network.body

    def _tokens_read(self, ready: Start) -> int:
        return len(ready.draft.ids)

    def _text_rows(self, request: Request, decoding: Decoding) -> TextRows:  # noqa: ARG002
        many = self._many(decoding)
        return TextRows(many, many)

    def _ready(self, batch: Sequence[Request], decoding: Decoding) -> list[Start]:
        if self._many(decoding) > 1:
            load("causal", self.ranker, self.loading)
        return [self._start(request, decoding.max_new_tokens) for request in batch]

    def _write(self, ready: Sequence[Start], decoding: Decoding, seed: int) -> list[Answer]:
        many = self._many(decoding)
        refined = refine(
            self._editor,
            [start.draft for start in ready for _ in range(many)],
            [f"{start.request.id} {chain}" for start in ready for chain in range(many)],
            decoding,
            seed,
            passes=self.passes,
            penalty=self.penalty,
            eagerness=self.eagerness,
            forbidden=self.forbidden,
            begin=len(self._editor.tokens.begin) if self.begin == "any" else 0,
            stops=self.stops,
            nucleus=(self.gap_top_k, self.gap_top_p),
        )
        texts = [self._text(ready[i // many], chain.draft) for i, chain in enumerate(refined)]
        return [
            self._answer(start, refined[begin : begin + many], texts[begin : begin + many])
            for start, begin in zip(ready, range(0, len(refined), many), strict=True)
        ]

    log_probs = AnsweringTechnique.log_probs

    @property
    def _editor(self) -> Editor:
        return editor(self.model, self.loading)

    def _many(self, decoding: Decoding) -> int:
        """How many texts are written for a request."""
        return 1 if decoding.greedy else self.chains

    def _start(self, request: Request, budget: int) -> Start:
        """Prompt and keywords; of a prompt that is too long the end is read."""
        tokens, limit = self._editor.tokens, self._editor.limit
        keywords = keywords_of(request.control)
        ids = tokens.all_ids(keywords)
        for keyword, keyword_ids in zip(keywords, ids, strict=True):
            if not keyword_ids:
                raise UserError(f"'{request.id}': {self.model} has no token for '{keyword}'")
        room = limit - len(tokens.begin) - len(tokens.end) - sum(map(len, ids)) - budget
        if room < 0:
            raise UserError(
                f"'{request.id}': max_new_tokens is {budget}; besides the keywords, the editor "
                f"takes {max(0, room + budget)} tokens"
            )
        prompt = tokens.ids(request.prompt) if request.prompt.strip() else []
        cut = len(prompt) > room
        read = prompt[len(prompt) - min(room, len(prompt)) :]
        return Start(request, keywords, EditedText.of(read, ids, tokens), cut)

    def _text(self, start: Start, draft: EditedText) -> str:
        """The prompt and the keywords as the user wrote them, and between them what the editor
        wrote."""
        written = ""
        *before, last = draft.runs()
        for run, keyword in zip(before, start.keywords, strict=True):
            written += f"{self._words(run)} {keyword}"
        written += self._words(last)
        prompt = start.request.prompt
        if not prompt or prompt[-1:].isspace():
            written = written.lstrip(" ")
        return prompt + written

    def _words(self, run: Sequence[int]) -> str:
        text = _BLANK_BEFORE.sub("", self._editor.tokens.text(run))
        return str(text).rstrip()

    def _answer(self, start: Start, chains: Sequence[Refined], texts: Sequence[str]) -> Answer:
        request = start.request
        distinct = list(dict.fromkeys(texts))
        best, ranked = 0, 0
        if len(distinct) > 1:
            best, ranked = texts.index(min(distinct, key=self._surprise)), len(distinct)
        winner = chains[best]
        return Answer.of(
            request,
            texts[best][len(request.prompt) :],
            tokens=winner.draft.new,
            forward_passes=sum(chain.rows for chain in chains) + ranked,
            extra={
                "passes": winner.passes,
                "settled": winner.settled,
                **({"chain": best} if len(chains) > 1 else {}),
                **({"prompt_cut": True} if start.cut else {}),
            },
        )

    def _surprise(self, text: str) -> float:
        """Mean -log P of the tokens of a text, by the ranker; its exponential is perplexity."""
        (likelihood,) = load("causal", self.ranker, self.loading).log_likelihood([text])
        return -float(np.mean(likelihood.log_p)) if len(likelihood.log_p) else float("inf")
