"""Infillers: small models that fill one gap in a text ("segment insertion", Lu et al. 2024, 3.4.1).

One example is a window of a document with one segment taken out. Two fifths of the segments are one
or two whole sentences, one fifth are up to 20 tokens anywhere, and two fifths reach from a place to
the end or from the beginning to a place: the gaps of CTRLEval's coherence, of CDM's manipulation,
and of CTRLEval's consistency. Encoder-decoders read `left <extra_id_0> right` and write
`<extra_id_0> segment </s>`, where the segment and its end are learnt. Causal models read
`<|fim_prefix|> left <|fim_suffix|> right <|fim_middle|> segment end` (Bavarian et al. 2022) and
learn all of it but the markers.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from levelfield.core.arrays import VocabularyIds
from levelfield.core.errors import ModelError, UserError
from levelfield.models.torch.fim import FIM
from levelfield.training.corpus import Corpus
from levelfield.training.loop import Loss

Family = Literal["t5", "causal"]

SENTINELS = tuple(f"<extra_id_{i}>" for i in range(10))
SEGMENT = 20
"""Tokens of the longest segment that is cut anywhere (Lu et al. 2024, section 4.1.1)."""
IGNORED = -100


class Example(NamedTuple):
    """VocabularyIds left of the gap, of the segment, and right of the gap."""

    left: VocabularyIds
    segment: VocabularyIds
    right: VocabularyIds


@dataclass(frozen=True)
class Batch:
    """Padded ids, (rows, tokens) each; labels are `IGNORED` where nothing is learnt. A causal
    model has no source."""

    source: torch.Tensor | None
    inputs: torch.Tensor
    labels: torch.Tensor


class Format:
    """How a family writes an example.

    Raises:
        ModelError: the tokenizer lacks the tokens of the format.
    """

    def __init__(self, tokenizer: Any, family: Family) -> None:
        self.family = family
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self.end = tokenizer.eos_token_id
        names = SENTINELS[:1] if family == "t5" else FIM
        self.marks = [tokenizer.convert_tokens_to_ids(name) for name in names]
        known = tokenizer.get_vocab()
        missing = [name for name in names if name not in known]
        if missing or self.end is None:
            raise ModelError(
                f"the tokenizer has no {', '.join(missing) or 'end-of-text token'}, which "
                f"the format of {family} infillers needs"
            )

    def source(self, example: Example) -> list[int]:
        """What an encoder reads; nothing for a causal model."""
        if self.family == "causal":
            return []
        return [*example.left.tolist(), *self.marks, *example.right.tolist(), self.end]

    def target(self, example: Example) -> tuple[list[int], int]:
        """What is written, and how many of its first tokens are given and not learnt."""
        segment = [*example.segment.tolist(), self.end]
        if self.family == "t5":
            return [*self.marks, *segment], 1
        prefix, suffix, middle = self.marks
        left, right = example.left.tolist(), example.right.tolist()
        return [prefix, *left, suffix, *right, middle, *segment], 1

    def batch(self, examples: Sequence[Example], start: int | None) -> Batch:
        """Padded on the right. `start` is the token a decoder begins with, None for causal."""
        targets = [self.target(example) for example in examples]
        full = _padded([ids for ids, _ in targets], self.pad)
        labels = _padded([ids for ids, _ in targets], IGNORED)
        for row, (_, given) in zip(labels, targets, strict=True):
            row[:given] = IGNORED
        if self.family == "causal":
            labels[np.isin(labels, self.marks)] = IGNORED
            return Batch(None, torch.from_numpy(full[:, :-1]), torch.from_numpy(labels[:, 1:]))
        source = torch.from_numpy(_padded([self.source(e) for e in examples], self.pad))
        begin = np.full((len(full), 1), start, np.int64)
        inputs = np.concatenate([begin, full[:, :-1]], axis=1)
        return Batch(source, torch.from_numpy(inputs), torch.from_numpy(labels))


def _padded(rows: Sequence[Sequence[int]], pad: int) -> npt.NDArray[np.int64]:
    made = np.full((len(rows), max(len(row) for row in rows)), pad, np.int64)
    for to, row in zip(made, rows, strict=True):
        to[: len(row)] = row
    return made


@dataclass(frozen=True)
class Infilling:
    """The task of filling gaps; a batch is a function of the seed and the step's number.

    Attributes:
        ends: (vocabulary,) which tokens end a sentence.
        batch: examples a step.
        window: tokens of the longest example.
        start: names the weights that training begins from.

    Examples of `POOL` batches are drawn together and sorted by the length of the segment, and of
    every `ALIKE` batches by the length of the rest, so that little of a batch is padding; the
    batches of a pool then come in random order.
    """

    corpus: Corpus
    format: Format
    ends: npt.NDArray[np.bool_]
    batch: int
    window: int
    seed: int
    start: str

    POOL = 32
    ALIKE = 4

    @property
    def identity(self) -> str:
        choices = (self.corpus.digest, self.batch, self.window, self.format.family, self.start)
        return " ".join(["infilling", *map(str, choices)])

    def loss(self, model: Any, step: int) -> Loss:
        """Cross-entropy of the segments of one batch, in nats."""
        pool, at = divmod(step, self.POOL)
        return _loss(model, self._pool(pool)[at])

    def validation(self, model: Any) -> Mapping[str, float]:
        """Mean loss a token over held-out documents; the same examples at every step."""
        total, count = 0.0, 0
        for batch in self._held_out:
            loss = _loss(model, batch)
            total, count = total + float(loss.total), count + loss.count
        return {"loss": total / max(1, count)}

    @functools.cached_property
    def _start(self) -> int | None:
        return None if self.format.family == "causal" else self.format.pad

    @functools.cached_property
    def _split(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        return self.corpus.split()

    @functools.cached_property
    def _pools(self) -> dict[int, list[Batch]]:
        return {}

    def _pool(self, pool: int) -> list[Batch]:
        if pool not in self._pools:
            self._pools.clear()
            rng = np.random.default_rng([self.seed, 1, pool])
            self._pools[pool] = self._batches(rng, self._split[0], self.POOL)
        return self._pools[pool]

    @functools.cached_property
    def _held_out(self) -> list[Batch]:
        return self._batches(np.random.default_rng([self.seed, 0]), self._split[1], 16)

    def _batches(
        self, rng: np.random.Generator, among: npt.NDArray[np.intp], count: int
    ) -> list[Batch]:
        examples = draw(self.corpus, among, rng, self.batch * count, self.window, self.ends)
        examples.sort(key=lambda e: len(e.segment))
        some = self.ALIKE * self.batch
        for at in range(0, len(examples), some):
            examples[at : at + some] = sorted(
                examples[at : at + some], key=lambda e: len(e.left) + len(e.right)
            )
        batches = [
            self.format.batch(examples[at : at + self.batch], self._start)
            for at in range(0, len(examples), self.batch)
        ]
        return [batches[i] for i in rng.permutation(len(batches))]


def draw(
    corpus: Corpus,
    among: npt.NDArray[np.intp],
    rng: np.random.Generator,
    count: int,
    window: int,
    ends: npt.NDArray[np.bool_],
) -> list[Example]:
    """Examples from documents drawn in proportion to their length, with replacement."""
    sizes = np.diff(corpus.begins)[among]
    total = np.cumsum(sizes)
    if not total.size or sizes.max() < FEWEST_TOKENS:
        raise UserError(f"no document of the corpus has {FEWEST_TOKENS} tokens or more")
    found: list[Example] = []
    while len(found) < count:
        place = int(rng.integers(total[-1]))
        at = int(np.searchsorted(total, place, side="right"))
        begin, end = corpus.begins[among[at]], corpus.begins[among[at] + 1]
        if end - begin < FEWEST_TOKENS:
            continue
        length = min(int(end - begin), int(rng.integers(window // 4, window + 1)))
        first = int(begin + rng.integers(end - begin - length + 1))
        ids = corpus.ids[first : first + length]
        left, right = _segment(ids, ends, rng)
        found.append(Example(ids[:left], ids[left:right], ids[right:]))
    return found


FEWEST_TOKENS = 4


def _segment(
    ids: VocabularyIds, ends: npt.NDArray[np.bool_], rng: np.random.Generator
) -> tuple[int, int]:
    """Where a segment begins and ends; never the whole window."""
    n = len(ids)
    kind = rng.random()
    borders = [0, *(np.flatnonzero(ends[ids[:-1]]) + 1).tolist(), n]
    if kind < 0.4 and len(borders) > 2:
        sentences = len(borders) - 1
        many = min(int(rng.integers(1, 3)), sentences - 1)
        at = int(rng.integers(sentences - many + 1))
        return borders[at], borders[at + many]
    if kind < 0.6:
        length = int(rng.integers(1, min(SEGMENT, n - 1) + 1))
        left = int(rng.integers(n - length + 1))
        return left, left + length
    place = int(rng.integers(1, n))
    return (place, n) if rng.random() < 0.5 else (0, place)


def sentence_ends(tokenizer: Any, vocabulary: int) -> npt.NDArray[np.bool_]:
    """(vocabulary,) whether a token ends a sentence or a turn: it ends with `.`, `!`, `?` or a
    line break."""
    many = min(vocabulary, len(tokenizer))
    ends = np.zeros(vocabulary, bool)
    texts = tokenizer.batch_decode([[id] for id in range(many)])
    ends[:many] = [text.endswith((".", "!", "?", "\n")) for text in texts]
    return ends


def _loss(model: Any, batch: Batch) -> Loss:
    device = next(model.parameters()).device
    inputs, labels = batch.inputs.to(device), batch.labels.to(device)
    if batch.source is None:
        logits = model(input_ids=inputs, use_cache=False).logits
    else:
        source = batch.source.to(device)
        logits = model(
            input_ids=source,
            attention_mask=(source != model.config.pad_token_id).long(),
            decoder_input_ids=inputs,
            use_cache=False,
        ).logits
    total = torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return Loss(total, int((batch.labels != IGNORED).sum()))


# -- models from nothing


@dataclass(frozen=True)
class Size:
    """Of a model that begins from random weights.

    Attributes:
        width: of the states.
        layers: of the encoder and of the decoder each; of a causal model in all.
        inner: width of the feed-forward layers.
        head: width of an attention head.
    """

    width: int
    layers: int
    inner: int
    head: int = 64


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A subword tokenizer for infillers: words are split off at blanks, line breaks and
    punctuation, then byte-pair encoding with single bytes for characters that are rare, so that
    every text has tokens. Holds the markers of both families."""
    from tokenizers import (
        Regex,
        Tokenizer,
        decoders,
        normalizers,
        pre_tokenizers,
        processors,
    )
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "</s>", *SENTINELS, *FIM]
    made = Tokenizer(BPE(byte_fallback=True))
    # blanks at the ends are dropped, as T5's own tokenizer does: beside a gap they carry nothing
    made.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(Regex(r"\s*\n\s*"), " \n "),  # a line break is a word
            normalizers.Replace(Regex(r"[^\S\n]+"), " "),
            normalizers.Strip(),
        ]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme="always"),
            pre_tokenizers.Split(Regex(r"(?!▁)[\p{P}\p{S}\d]"), "isolated"),
        ]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace(" \n ", "\n"),
            decoders.Strip(" ", 1, 0),
        ]
    )
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[*special, *bytes_],
        limit_alphabet=200,
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    # the trainer knows no other way to reserve entries of the vocabulary; bytes are no markers
    described = json.loads(made.to_str())
    described["added_tokens"] = [
        token for token in described["added_tokens"] if token["content"] not in bytes_
    ]
    made = Tokenizer.from_str(json.dumps(described))
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=made,
        pad_token="<pad>",
        eos_token="</s>",
        extra_special_tokens=[*SENTINELS, *FIM],
    )


def new_model(family: Family, size: Size, vocabulary: int, seed: int, *, positions: int) -> Any:
    """A model with random weights."""
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if family == "t5":
            return transformers.T5ForConditionalGeneration(
                transformers.T5Config(  # type: ignore[call-arg]
                    vocab_size=vocabulary,
                    d_model=size.width,
                    d_kv=size.head,
                    d_ff=size.inner,
                    num_layers=size.layers,
                    num_heads=max(1, size.width // size.head),
                    feed_forward_proj="gated-gelu",
                    dropout_rate=0.0,
                    n_positions=positions,
                    pad_token_id=0,
                    eos_token_id=1,
                    decoder_start_token_id=0,
                )
            )
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=vocabulary,
                hidden_size=size.width,
                intermediate_size=size.inner,
                num_hidden_layers=size.layers,
                num_attention_heads=max(1, size.width // size.head),
                max_position_embeddings=positions,
                tie_word_embeddings=True,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=1,
            )
        )


def digest_of(model: Any) -> str:
    """Names the weights that training begins from."""
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().float().numpy().tobytes())
    return found.hexdigest()
