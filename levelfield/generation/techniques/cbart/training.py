"""From a corpus to an editor's folder."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from levelfield.core.arrays import Codes, VocabularyIds
from levelfield.core.errors import UserError
from levelfield.generation.techniques.cbart.corruption import (
    IGNORED,
    Corruption,
    EditingExample,
    some_sentences,
)
from levelfield.generation.techniques.cbart.editor_options import EditorSize, EditorSpec, Learn
from levelfield.generation.techniques.cbart.network import (
    Action,
    EditingHead,
    EditorNetwork,
    EditorTokens,
    add_head,
)
from levelfield.models import tokens
from levelfield.models.resolve import resolve
from levelfield.models.tokens import token_mask
from levelfield.models.torch.loading import load_pretrained
from levelfield.train.builder import (
    Account,
    Beginning,
    Workplace,
    build,
    digest_of_weights,
    save_model,
    stepwise,
)
from levelfield.train.corpus import Corpus, digest_of_texts, tokenise
from levelfield.train.loop import HistoryRow, Loss, seeded

EMBEDDINGS = 0.07
"""Deviation of the embeddings that are taken over; large beside the other weights, so that from the
first step on states differ from token to token."""
WEIGHTS = 0.05
HEAD = 64
POSITIONS = 128


def new_body(vocabulary: Any, tokenizer: Any, size: EditorSize, seed: int) -> Any:
    """A BART with random weights and the token embeddings of another model, which decide its width.

    Positions begin as sinusoids, since few sentences reach the last ones.

    Args:
        vocabulary: the other model.
        tokenizer: of both.
    """
    import transformers

    embeddings = vocabulary.get_input_embeddings().weight.detach()
    words, width = embeddings.shape
    with seeded(seed):
        body: Any = transformers.BartForConditionalGeneration(
            transformers.BartConfig(
                vocab_size=words,
                d_model=width,
                encoder_layers=size.layers,
                decoder_layers=size.layers,
                encoder_attention_heads=max(1, width // HEAD),
                decoder_attention_heads=max(1, width // HEAD),
                encoder_ffn_dim=size.inner * width,
                decoder_ffn_dim=size.inner * width,
                max_position_embeddings=POSITIONS,
                dropout=0.0,
                init_std=WEIGHTS,
                pad_token_id=tokenizer.pad_token_id,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
                decoder_start_token_id=vocabulary.config.decoder_start_token_id,
                forced_eos_token_id=None,
            )
        )
    with torch.no_grad():
        body.get_input_embeddings().weight.copy_(embeddings / embeddings.std() * EMBEDDINGS)
        for half in (body.get_encoder(), body.get_decoder()):
            table = half.embed_positions.weight
            table.copy_(_sinusoids(*table.shape) * WEIGHTS)
    return body.eval()


def new_head(width: int, seed: int) -> EditingHead:
    """Returns a head with random weights, for states of a width."""
    with seeded(seed):
        return EditingHead(width)


def save_editor(network: EditorNetwork, tokenizer: Any, out: Path, *, half: bool = False) -> None:
    """Leaves the folder of an editor: that of its encoder-decoder, the head among the weights.

    Raises:
        UserError: the encoder-decoder is too large for one file.
    """
    save_model(network.body, tokenizer, out, half=half)
    add_head(network.head, out)


def _sinusoids(places: int, width: int) -> torch.Tensor:
    """Vaswani et al. (2017), section 3.5: (places, width)."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(places)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


@dataclass(frozen=True)
class EditingBatch:
    """Padded on the right: source, its mask and actions (rows, n); inputs of the decoder, what it
    is to write, and which of that is filled in (rows, m)."""

    source: torch.Tensor
    mask: torch.Tensor
    actions: torch.Tensor
    inputs: torch.Tensor
    targets: torch.Tensor
    masked: torch.Tensor

    def to(self, device: torch.device) -> EditingBatch:
        """On a device."""
        return EditingBatch(*(tensor.to(device) for tensor in vars(self).values()))


@dataclass(frozen=True)
class Editing:
    """The task of mending sentences; a batch is a function of the seed and the step's number.

    Attributes:
        corpus: a sentence each document.
        batch: examples a step.
        window: tokens of the longest sentence.
        start: names the weights that training begins from.

    Examples of `POOL` batches are drawn together and sorted by their length, so that little of a
    batch is padding; the batches of a pool then come in random order.
    """

    corpus: Corpus
    tokens: EditorTokens
    batch: int
    window: int
    learn: Learn
    seed: int
    start: str

    POOL = 32
    TRIALS = 16
    """Batches of held-out sentences."""

    @property
    def identity(self) -> str:
        choices = (self.corpus.digest, self.batch, self.window, self.learn, self.start)
        return " ".join(["editing", *map(str, choices)])

    def loss(self, model: Any, step: int) -> Loss:
        """Mean cross-entropy of the actions, plus that of the tokens: nats."""
        pool, place = divmod(step, self.POOL)
        batch = self._pool(pool)[place].to(next(model.parameters()).device)
        return Loss(sum(self._losses(*self._logits(model, batch), batch)), 1)  # type: ignore[arg-type]

    def validation(self, model: Any) -> Mapping[str, float]:
        """Held-out figures, of the same examples at every step: the loss, the share of each action
        that is told, and the share of gaps that are filled as they were."""
        losses: list[float] = []
        right, count = np.zeros(4), np.zeros(4)
        for held_out in self._held_out:
            batch = held_out.to(next(model.parameters()).device)
            actions, tokens = self._logits(model, batch)
            losses.append(float(sum(self._losses(actions, tokens, batch))))
            for action in Action:
                is_target = batch.actions == action
                count[action] += int(is_target.sum())
                right[action] += int((actions.argmax(-1)[is_target] == action).sum())
            learnt = self._learnt(batch)
            is_target = batch.masked[learnt]
            count[3] += int(is_target.sum())
            gaps = batch.targets[learnt][is_target]
            right[3] += int((tokens.argmax(-1)[is_target] == gaps).sum())
        names = [*(action.name.lower() for action in Action), "gaps"]
        shares = right / np.maximum(1, count)
        return {"loss": float(np.mean(losses)), **dict(zip(names, shares.tolist(), strict=True))}

    def _logits(
        self, model: EditorNetwork, batch: EditingBatch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        states, actions = model.encode(batch.source, batch.mask)
        return actions, model.decode(states, batch.mask, batch.inputs, self._learnt(batch))

    def _learnt(self, batch: EditingBatch) -> torch.Tensor:
        return batch.masked if self.learn == "masks" else batch.targets != IGNORED

    def _losses(
        self, actions: torch.Tensor, tokens: torch.Tensor, batch: EditingBatch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cross_entropy = functools.partial(
            torch.nn.functional.cross_entropy, ignore_index=IGNORED, reduction="sum"
        )
        action_loss = cross_entropy(actions.float().flatten(0, 1), batch.actions.flatten())
        token_loss = cross_entropy(tokens.float(), batch.targets[self._learnt(batch)])
        labels = int((batch.actions != IGNORED).sum())
        return action_loss / max(1, labels), token_loss / max(1, len(tokens))

    @functools.cached_property
    def _split(self) -> tuple[Codes, Codes]:
        lengths = np.diff(self.corpus.begins)
        fit = (lengths >= 2) & (lengths <= self.window)
        train, held = (among[fit[among]] for among in self.corpus.split())
        if not len(train) or not len(held):
            raise UserError(f"too few sentences of 2 to {self.window} tokens in the corpus")
        return train, held

    @functools.cached_property
    def _corruption(self) -> Corruption:
        ids = self.corpus.ids
        counts = np.bincount(ids, minlength=self.tokens.vocabulary_size).astype(float)
        return Corruption(self.tokens.goes_on, counts / counts.sum())

    @functools.cached_property
    def _pools(self) -> dict[int, list[EditingBatch]]:
        return {}

    def _pool(self, pool: int) -> list[EditingBatch]:
        if pool not in self._pools:
            self._pools.clear()
            rng = np.random.default_rng([self.seed, 1, pool])
            self._pools[pool] = self._batches(rng, self._split[0], self.POOL)
        return self._pools[pool]

    @functools.cached_property
    def _held_out(self) -> list[EditingBatch]:
        return self._batches(np.random.default_rng([self.seed, 0]), self._split[1], self.TRIALS)

    def _batches(self, rng: np.random.Generator, among: Codes, count: int) -> list[EditingBatch]:
        documents = among[rng.integers(len(among), size=self.batch * count)]
        examples = [self._corruption.example(self._sentence(n), rng) for n in documents]
        examples.sort(key=lambda e: (len(e.filled), len(e.source)))
        batches = [
            padded(examples[begin : begin + self.batch], self.tokens)
            for begin in range(0, len(examples), self.batch)
        ]
        return [batches[i] for i in rng.permutation(len(batches))]

    def _sentence(self, document: int) -> VocabularyIds:
        begin, end = self.corpus.begins[document], self.corpus.begins[document + 1]
        return self.corpus.ids[begin:end]


def padded(examples: Sequence[EditingExample], tokens: EditorTokens) -> EditingBatch:
    """Examples with the special tokens around them; those are copied, the end may be inserted
    before."""
    begin, end = list(tokens.begin), list(tokens.end)
    rest = [int(Action.COPY)] * (len(end) - 1)
    sources, actions, inputs, targets, masked = [], [], [], [], []
    for example in examples:
        sources.append([*begin, *example.source.tolist(), *end])
        actions.append([*(int(Action.COPY) for _ in begin), *example.actions.tolist(), *rest])
        written = [*begin, *example.filled.tolist(), *end]
        gaps = [*(False for _ in begin), *example.masked.tolist(), *(False for _ in end)]
        shown = [tokens.mask if gap else id for id, gap in zip(written, gaps, strict=True)]
        inputs.append([tokens.decoder_start, *shown[:-1]])
        targets.append(written)
        masked.append(gaps)
    return EditingBatch(
        _tensor(sources, tokens.pad),
        torch.from_numpy(token_mask(sources)),
        _tensor(actions, IGNORED),
        _tensor(inputs, tokens.pad),
        _tensor(targets, IGNORED),
        _tensor(masked, False).bool(),
    )


def _tensor(rows: Sequence[Sequence[int]], pad: int) -> torch.Tensor:
    return torch.from_numpy(tokens.padded(rows, pad))


def build_editor(
    texts: Callable[[], Iterator[str]],
    spec: EditorSpec,
    out: Path,
    **account: Unpack[Account],
) -> list[HistoryRow]:
    """Trains an editor and leaves a model folder with a card at `out`.

    Args:
        texts: returns an iterator of the documents of the corpus at every call.
        account: sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: as of `build`.
    """
    # a word is a token at least
    sentences = some_sentences(
        texts(), spec.sentences, spec.window, spec.recipe.seed, spec.language
    )

    def begin(spec: EditorSpec, place: Workplace) -> Beginning:
        seed = spec.recipe.seed
        resolved = resolve(spec.start or spec.vocabulary, spec.loading)
        body, tokenizer = load_pretrained(resolved, "encoder-decoder", spec.loading)
        if not spec.start:
            body = new_body(body, tokenizer, spec.size, seed).to(place.device)
        network = EditorNetwork(body, new_head(body.config.d_model, seed).to(place.device))
        tokens = EditorTokens(tokenizer, body.config)
        corpus = tokenise((f" {sentence}" for sentence in sentences), tokenizer)
        place.notes(corpus.contents("sentences"))
        start = digest_of_weights(network)

        def save(last: HistoryRow) -> Mapping[str, str]:
            save_editor(network, tokenizer, place.out, half=spec.half)
            shares = last.validation
            actions = (f"{name} {shares[name]:.1%}" for name in ("copy", "replace", "insert"))
            return {
                "Held out: loss": f"{shares['loss']:.4f} nats, actions and tokens",
                "Held out: actions told": ", ".join(actions),
                "Held out: gaps filled as they were": f"{shares['gaps']:.1%}",
            }

        return Beginning(
            "inserts and replaces words around keywords",
            network,
            Editing(corpus, tokens, spec.batch, spec.window, spec.learn, seed, start),
            resolved.label
            if spec.start
            else f"random weights, and the embeddings of {resolved.label}",
            f"{spec.batch} corrupted sentences of up to {spec.window} tokens",
            save,
            {
                "Corpus": corpus.contents("sentences"),
                "Learnt by the decoder": "what it fills in"
                if spec.learn == "masks"
                else "all tokens",
            },
        )

    return build(stepwise(begin), spec, digest_of_texts(sentences), out, **account)
