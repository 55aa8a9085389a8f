"""Sampling from p⁻: what a small model would write if it were still smaller.

With an amateur p_a, an expert p_e and the momentum m = log p_e − log p_a, every token is drawn from

    log p⁻(x_t | …) = log p_a(x_t | …) − γ m(x_t | …) − log Z_t,

normalised at each step (Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution
Methods", section 3.4.1, equation 4). γ = 0 is the amateur alone, the control of their Table 5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError, UserError
from levelfield.models.causal_tokens import WITHOUT, Bos, CausalTokens, rule
from levelfield.models.contracts import FIM, GAP_STYLES, Gapped
from levelfield.models.infilling import GapTokens, fim_prompt, positions
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.tokens import buckets, check_same_vocabulary
from levelfield.models.torch.decoding import CausalRows, EncoderDecoderRows, GrowingRows
from levelfield.models.torch.draws import Key, inverse_cdf, uniform
from levelfield.models.torch.loading import batch_of, load_pretrained


class GapFormat(GapTokens):
    """Encoder-decoders: the encoder reads the text with its gap token.

    Attributes:
        ends: the tokens that end a segment.
    """

    sees_right = True
    choices: ClassVar[Mapping[str, str]] = {}

    def __init__(self, tokenizer: Any, configs: Sequence[Any]) -> None:
        family = configs[0].model_type
        # BART writes the whole text again, not what is missing in it
        families = sorted(GAP_STYLES.keys() - {"bart"})
        if family not in families:
            raise ModelError(
                f"a {family} model does not fill gaps with segments alone; families that do: "
                f"{', '.join(families)}, and causal models"
            )
        self.name = family
        super().__init__(tokenizer, configs[0], GAP_STYLES[family])
        self._limit = min(positions(config) for config in configs)
        self._pad = int(configs[0].pad_token_id)
        following = self._tokens.single("<extra_id_1>") if self._style.decoder_prefix else None
        self.ends = {i for i in (tokenizer.eos_token_id, following) if i is not None}

    def prompts(self, sources: Sequence[Gapped], max_tokens: int) -> list[list[int]]:
        _room(self._limit, max_tokens + len(self._start))
        mark = self._style.token
        near = [
            _trimmed_at_gap(Gapped(source.left.replace(mark, " "), source.right.replace(mark, " ")))
            for source in sources
        ]
        return self._source_ids(near)[0]

    def decoding(
        self, model: Any, prompts: Sequence[list[int]], device: torch.device, use_cache: bool
    ) -> GrowingRows:
        batch = batch_of(prompts, self._pad, device)
        states = model.get_encoder()(**batch).last_hidden_state
        start = torch.tensor([self._start] * len(prompts), device=device)
        return EncoderDecoderRows(model, states, batch["attention_mask"], start, use_cache)


class CausalFormat:
    """Causal models: both sides, if the tokenizer has the marks for them, else the left side."""

    def __init__(self, tokenizer: Any, configs: Sequence[Any], bos: Bos = "auto") -> None:
        vocabulary = tokenizer.get_vocab()
        self.sees_right = all(mark in vocabulary for mark in FIM)
        self.name = "fim" if self.sees_right else "left"
        self._marks = [vocabulary[mark] for mark in FIM] if self.sees_right else []
        each = [CausalTokens(tokenizer, config, bos=bos) for config in configs]
        self._tokens = each[0]
        self._limit = min(tokens.limit for tokens in each)
        self.ends = {i for i in (tokenizer.eos_token_id,) if i is not None}

    def prompts(self, sources: Sequence[Gapped], max_tokens: int) -> list[list[int]]:
        room = _room(self._limit, max_tokens)
        # no token of a usual vocabulary spans 64 characters: this cut never shows in what is kept
        near = [_trimmed_at_gap(source).near(64 * self._limit) for source in sources]
        lefts = self._tokens.ids([source.left for source in near])
        if not self.sees_right:
            kept = [left[max(0, len(left) - room + 1) :] for left in lefts]
            return [self._tokens.begun(left) for left in kept]
        rights = self._tokens.ids([source.right for source in near])
        return [
            fim_prompt(self._marks, left, right, room)[0]
            for left, right in zip(lefts, rights, strict=True)
        ]

    @property
    def choices(self) -> dict[str, str]:
        """What settings say of how texts begin: nothing of BOS."""
        without = not (self.sees_right or self._tokens.reads_bos)
        return {"bos": WITHOUT} if without else {}

    def decoding(
        self, model: Any, prompts: Sequence[list[int]], device: torch.device, use_cache: bool
    ) -> GrowingRows:
        return CausalRows.of(model, prompts, self._tokens.bos_id, device, use_cache)


def _trimmed_at_gap(source: Gapped) -> Gapped:
    return source._replace(left=source.left.rstrip(" \t"))


def _room(limit: int, max_tokens: int) -> int:
    if not 1 <= max_tokens < limit // 2:
        raise UserError(
            f"max_tokens is {max_tokens}; expected 1 to {limit // 2 - 1}, half of the "
            f"{limit} tokens that the models take"
        )
    return limit - max_tokens


MAX_TOKENS = 64
_ALL_TOKENS = {"temperature": "1", "top_k": "0", "top_p": "1"}
"""What files of negatives say of sampling: a token is drawn from all of p⁻, as it is."""
_SENTINEL = re.compile(r"<extra_id_\d+>")
_LOWEST = -1e5
"""Lower log-probabilities count as this one: γ times an infinite one is not a number."""


class Pretrained(NamedTuple):
    """A model in evaluation mode, its tokenizer, how settings name it, and whether BOS precedes
    every text."""

    model: Any
    tokenizer: Any
    label: str = ""
    bos: Bos = "auto"


def load_contrast(
    amateur: str,
    expert: str | None,
    gamma: float,
    *,
    loading: Loading = Loading(),  # noqa: B008
) -> ContrastSampler:
    """Returns the sampler of two models by name; with γ = 0 the expert is neither loaded nor
    needed.

    Raises:
        ModelError: no such models, models of two kinds, or of different vocabularies.
        UserError: a γ that makes no distribution.
    """

    def loaded(name: str) -> Pretrained:
        resolved = resolve(name, loading)
        if resolved.kind not in ("encoder-decoder", "causal"):
            raise ModelError(
                f"model '{name}' is a {resolved.kind} and does not write text; negatives require "
                "an encoder-decoder or a causal language model"
            )
        model, tokenizer = load_pretrained(resolved, resolved.kind, loading)
        return Pretrained(model, tokenizer, resolved.label, rule(resolved, "auto"))

    return ContrastSampler(
        loaded(amateur),
        loaded(expert) if expert and gamma else None,
        gamma,
        batch_tokens=loading.batch_tokens,
    )


class ContrastSampler:
    """Draws segments from p⁻ of two models with one vocabulary.

    What the models read of a text with a gap:

    - encoder-decoders of a family that fills gaps (T5, PEGASUS): the text with its gap token;
    - causal models whose tokenizer has `<|fim_prefix|>`, `<|fim_suffix|>` and `<|fim_middle|>`:
      both sides in that order (Bavarian et al. 2022);
    - other causal models: the left side only (Lu et al. 2024, Table 6, lower half), after BOS if
      the amateur's tokenizer puts it before texts.

    Blanks before the gap are not read, since they belong to the first token after it, and a gap
    token in the text itself is read as a blank. A text that exceeds the shorter of the two models'
    limits keeps its parts nearest to the gap.

    A segment has at least one token and ends before EOS, before the next sentinel of T5, before a
    token with a line break, or after `max_tokens`. Special tokens are never drawn within it; what
    is left of p⁻ is normalised again.

    Cost: a batch takes one pass of each model over the sources and one a token over the segments,
    whose keys and values are kept; segments that have ended leave the batch. With γ = 0 the expert
    takes no pass.

    Determinism: each segment has its own random numbers, from the seed and its key, so it does not
    depend on the rest of the batch. (Up to rounding: where a batch of another shape changes a
    probability in its last digits, one segment in some 100,000 tokens may differ.)

    Args:
        amateur, expert: the models; the expert may be None with γ = 0.
        gamma: γ ≥ 0.
        batch_tokens: the most tokens in a batch, padding and segments included.
        use_cache: False recomputes keys and values at every step: slow, the same segments.

    Attributes:
        sees_right: whether the models read what follows a gap.

    Raises:
        ModelError: different vocabularies or kinds, or a family whose gap format is not known.
        UserError: a γ that makes no distribution.
    """

    def __init__(
        self,
        amateur: Pretrained,
        expert: Pretrained | None,
        gamma: float,
        *,
        batch_tokens: int | None = None,
        use_cache: bool = True,
    ) -> None:
        if not (math.isfinite(gamma) and gamma >= 0):
            raise UserError(f"gamma is {gamma}; expected a number of at least 0")
        if gamma and expert is None:
            raise UserError(
                f"gamma is {gamma}, which requires an expert; name one, or set gamma to 0"
            )
        self._pair = [amateur, expert] if gamma and expert else [amateur]
        self._gamma = gamma
        first, *others = (model.model.config.is_encoder_decoder for model in self._pair)
        for model in self._pair[1:]:
            check_same_vocabulary(amateur.tokenizer, model.tokenizer)
        if any(other != first for other in others):
            raise ModelError(
                "amateur and expert must be of the same kind, both encoder-decoders or both causal"
            )
        self._tokenizer = amateur.tokenizer
        configs = [model.model.config for model in self._pair]
        self._format = (
            GapFormat(self._tokenizer, configs)
            if first
            else CausalFormat(self._tokenizer, configs, amateur.bos)
        )
        self._device = next(amateur.model.parameters()).device
        on_cpu = self._device.type == "cpu"
        self._batch_tokens = batch_tokens or (4096 if on_cpu else 32768)
        self._use_cache = use_cache
        self.sees_right = self._format.sees_right
        self._bind_vocabulary(configs)

    def _bind_vocabulary(self, configs: Sequence[Any]) -> None:
        """Which tokens may be drawn, at the first place and later, and which of them end."""
        tokenizer = self._tokenizer
        width = min(int(config.get_text_config().vocab_size) for config in configs)
        special = set(tokenizer.all_special_ids)
        special |= {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        words: set[int] = set()
        self._ends = {*self._format.ends}
        for token, i in tokenizer.get_vocab().items():
            if i >= width or i in special or _SENTINEL.fullmatch(token):
                continue
            if "\n" in tokenizer.convert_tokens_to_string([token]):
                self._ends.add(i)
            else:
                words.add(i)
        if not words:
            raise ModelError("the vocabulary has only special tokens; there is no text in it")
        self._first = torch.zeros(width, dtype=torch.bool)
        self._first[sorted(words)] = True
        self._later = self._first.clone()
        self._later[sorted(i for i in self._ends if i < width)] = True
        self._first, self._later = self._first.to(self._device), self._later.to(self._device)

    @property
    def choices(self) -> Mapping[str, str]:
        """Every choice that could change a segment, by name."""
        names = ("amateur", "expert")
        models = {name: model.label for name, model in zip(names, self._pair, strict=False)}
        dtype = str(next(self._pair[0].model.parameters()).dtype).removeprefix("torch.")
        format = {"format": self._format.name, "dtype": dtype}
        whole = models | {"gamma": f"{self._gamma:g}"} | _ALL_TOKENS | format
        return {**whole, **self._format.choices}

    def infill(
        self,
        sources: Sequence[Gapped],
        *,
        seed: int,
        max_tokens: int = MAX_TOKENS,
        keys: Sequence[Key] | None = None,
    ) -> list[str]:
        """Returns a segment for the gap of each source, without blanks around it.

        It may be empty, where the tokens drawn are nothing but blanks.

        Args:
            sources: texts with a gap.
            seed: of all random numbers.
            max_tokens: of the longest segment.
            keys: what tells the random numbers of one source from another's; if not given, its
                place among the sources: (0,), (1,), …

        Raises:
            UserError: `max_tokens` leaves no room for a source.
            ModelError: the models give probabilities that are not numbers.
        """
        if keys is None:
            keys = [(i,) for i in range(len(sources))]
        prompts = self._format.prompts(sources, max_tokens)
        segments = [""] * len(prompts)
        lengths = [len(prompt) + max_tokens for prompt in prompts]
        with torch.inference_mode():
            for bucket in buckets(lengths, self._batch_tokens):
                rows = bucket.tolist()
                u = np.stack([uniform(seed, keys[i], max_tokens) for i in rows])
                for i, ids in zip(rows, self._draw([prompts[i] for i in rows], u), strict=True):
                    text = self._tokenizer.decode(ids, clean_up_tokenization_spaces=False)
                    # one that was cut in the middle of a character ends with a replacement for it
                    segments[i] = text.rstrip("\ufffd").strip()
        return segments

    def _draw(self, prompts: Sequence[list[int]], u: Floats) -> list[list[int]]:
        """Returns the tokens of one batch. u: (rows, max_tokens), uniform in [0, 1)."""
        models = [
            self._format.decoding(pretrained.model, prompts, self._device, self._use_cache)
            for pretrained in self._pair
        ]
        numbers = torch.from_numpy(u).to(self._device)
        drawn: list[list[int]] = [[] for _ in prompts]
        live = list(range(len(prompts)))
        for step in range(u.shape[1]):
            p = self._probabilities(
                [model.logits() for model in models], self._later if step else self._first
            )
            tokens = inverse_cdf(p, numbers[:, step])
            going = []
            for row, token in enumerate(tokens.tolist()):
                if token not in self._ends:
                    drawn[live[row]].append(token)
                    going.append(row)
            if not going or step + 1 == u.shape[1]:
                break
            if len(going) < len(live):
                live = [live[row] for row in going]
                rows = torch.tensor(going, device=self._device)
                numbers, tokens = numbers[rows], tokens[rows]
                for model in models:
                    model.keep(rows)
            for model in models:
                model.read(tokens)
        return drawn

    def _probabilities(self, logits: Sequence[torch.Tensor], allowed: torch.Tensor) -> torch.Tensor:
        """Returns p⁻ of the next token: (rows, vocabulary), float64."""
        width = len(allowed)
        log_p = negative_log_p([scores[:, :width] for scores in logits], self._gamma)
        p = log_p.masked_fill(~allowed, -torch.inf).softmax(-1)
        if not p.isfinite().all():
            raise ModelError("the models give probabilities that are not numbers")
        return p


def negative_log_p(logits: Sequence[torch.Tensor], gamma: float) -> torch.Tensor:
    """Returns log p⁻ = log p_a − γ (log p_e − log p_a) − log Z: (rows, vocabulary), float64.

    Args:
        logits: the amateur's, and the expert's unless γ = 0; (rows, vocabulary) each.
        gamma: γ.
    """
    log_p = [scores.double().log_softmax(-1) for scores in logits]
    if not gamma:
        return log_p[0]
    log_p_a, log_p_e = (scores.clamp(min=_LOWEST) for scores in log_p)
    m = log_p_e - log_p_a
    # what the amateur finds impossible stays so, however much more the expert does
    return (log_p_a - gamma * m).masked_fill(log_p[0].isneginf(), -torch.inf).log_softmax(-1)
