"""From a corpus to an infiller's folder."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from levelfield.core.arrays import Bools, Codes
from levelfield.core.errors import UserError
from levelfield.models.contracts import FIM
from levelfield.models.resolve import Kind, resolve
from levelfield.models.torch.loading import fuse_activations, load_pretrained
from levelfield.train.builder import (
    Account,
    Beginning,
    Workplace,
    build,
    digest_of_weights,
    save_model,
    saved_tokenizer,
    start_of,
    stepwise,
)
from levelfield.train.corpus import Corpus, digest_of_texts, tokenise
from levelfield.train.infiller import Family, InfillerSpec, Size
from levelfield.train.infiller.examples import (
    IGNORED,
    Batch,
    InfillingFormat,
    draw,
    sample_of,
    sentence_ends,
    train_tokenizer,
)
from levelfield.train.loop import HistoryRow, Loss, last_kept, seeded


def new_model(family: Family, size: Size, vocabulary: int, seed: int, *, positions: int) -> Any:
    """Returns a model with random weights."""
    import transformers

    size = size.settled()
    assert size.inner
    assert size.head

    with seeded(seed):
        if family == "t5":
            return transformers.T5ForConditionalGeneration(
                transformers.T5Config(
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
    format: InfillingFormat
    ends: Bools
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
        """Returns the cross-entropy of the segments of one batch, in nats."""
        pool, index = divmod(step, self.POOL)
        return _loss(model, self._pool(pool)[index])

    def validation(self, model: Any) -> Mapping[str, float]:
        """Returns the mean loss a token over held-out documents; the same examples at every
        step."""
        total, count = 0.0, 0
        for batch in self._held_out:
            loss = _loss(model, batch)
            total, count = total + float(loss.total), count + loss.count
        return {"loss": total / max(1, count)}

    @functools.cached_property
    def _start(self) -> int | None:
        return None if self.format.family == "causal" else self.format.pad

    @functools.cached_property
    def _split(self) -> tuple[Codes, Codes]:
        return self.corpus.split()

    @functools.cached_property
    def _pool(self) -> Callable[[int], list[Batch]]:
        return last_kept(self._drawn)

    def _drawn(self, pool: int) -> list[Batch]:
        rng = np.random.default_rng([self.seed, 1, pool])
        return self._batches(rng, self._split[0], self.POOL)

    @functools.cached_property
    def _held_out(self) -> list[Batch]:
        return self._batches(np.random.default_rng([self.seed, 0]), self._split[1], 16)

    def _batches(self, rng: np.random.Generator, among: Codes, count: int) -> list[Batch]:
        examples = draw(self.corpus, among, rng, self.batch * count, self.window, self.ends)
        examples.sort(key=lambda e: len(e.segment))
        alike = self.ALIKE * self.batch
        for begin in range(0, len(examples), alike):
            examples[begin : begin + alike] = sorted(
                examples[begin : begin + alike], key=lambda e: len(e.left) + len(e.right)
            )
        batches = [
            self.format.batch(examples[begin : begin + self.batch], self._start)
            for begin in range(0, len(examples), self.batch)
        ]
        return [batches[i] for i in rng.permutation(len(batches))]


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


POSITIONS = 512

Texts = Callable[[], Iterator[str]]


def build_infiller(
    texts: Texts, spec: InfillerSpec, out: Path, **account: Unpack[Account]
) -> list[HistoryRow]:
    """Trains an infiller and writes a model folder with a card at `out`.

    Args:
        texts: returns a new iterator over the documents of the corpus at every call.
        account: sources for the card, and callbacks for progress and notes.

    Raises:
        UserError, ModelError: as for `build`.
    """
    data = digest_of_texts(texts())

    def begin(spec: InfillerSpec, place: Workplace) -> Beginning:
        kept = place.checkpoint / f"tokenizer-{spec.vocabulary}-{data[:12]}"
        model, tokenizer = _begin(texts, spec, kept, place.device)
        corpus = tokenise(texts(), tokenizer)
        place.notes(corpus.contents("documents"))

        def save(last: HistoryRow) -> Mapping[str, str]:
            save_model(model, tokenizer, place.out, half=spec.half)
            return {"Loss": f"{last.validation['loss']:.4f} nats per token on held-out documents"}

        task = Infilling(
            corpus,
            InfillingFormat(tokenizer, spec.family),
            sentence_ends(tokenizer, int(model.config.vocab_size)),
            spec.batch,
            spec.window,
            spec.recipe.seed,
            digest_of_weights(model),
        )
        return Beginning(
            "fills one gap in a text",
            model,
            task,
            start_of(spec),
            f"{spec.batch} examples of up to {spec.window} tokens",
            save,
            {"Format": f"{spec.family}, one gap a text", "Corpus": corpus.contents("documents")},
        )

    return build(stepwise(begin), spec, data, out, **account)


def _begin(texts: Texts, spec: InfillerSpec, folder: Path, device: torch.device) -> tuple[Any, Any]:
    """Model and tokenizer before the first step; the same ones every time. A tokenizer that is
    trained here is kept in `folder`."""
    if spec.start:
        kind: Kind = "encoder-decoder" if spec.family == "t5" else "causal"
        model, tokenizer = load_pretrained(resolve(spec.start), kind, spec.loading)
        vocabulary = tokenizer.get_vocab()
        if spec.family == "causal" and any(mark not in vocabulary for mark in FIM):
            tokenizer.add_special_tokens({"extra_special_tokens": list(FIM)})
            with seeded(spec.recipe.seed):
                model.resize_token_embeddings(len(tokenizer))
        return model, tokenizer
    if spec.tokenizer and not (Path(spec.tokenizer) / "tokenizer.json").is_file():
        raise UserError(f"{spec.tokenizer} has no tokenizer.json")
    tokenizer = saved_tokenizer(
        Path(spec.tokenizer) if spec.tokenizer else folder,
        lambda: train_tokenizer(sample_of(texts()), spec.vocabulary),
    )
    model = new_model(spec.family, spec.size, len(tokenizer), spec.recipe.seed, positions=POSITIONS)
    fuse_activations(model)
    return model.to(device), tokenizer
