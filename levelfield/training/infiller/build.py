"""From a corpus to an infiller's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Unpack

import torch

from levelfield.core.errors import UserError
from levelfield.models.gaps import FIM
from levelfield.models.resolve import Kind, resolve
from levelfield.models.torch.loading import fuse_activations, load_pretrained
from levelfield.training.builder import Account, Beginning, Workplace, build, start_of, stepwise
from levelfield.training.corpus import digest_of_texts, tokenise
from levelfield.training.folder import digest_of_weights, save_model, saved_tokenizer
from levelfield.training.infiller import InfillerSpec
from levelfield.training.infiller.architecture import new_model
from levelfield.training.infiller.examples import sentence_ends
from levelfield.training.infiller.format import InfillingFormat
from levelfield.training.infiller.task import Infilling
from levelfield.training.infiller.tokenizer import sample_of, train_tokenizer
from levelfield.training.loop import HistoryRow, seeded

POSITIONS = 512

Texts = Callable[[], Iterator[str]]


def build_infiller(
    texts: Texts, spec: InfillerSpec, out: Path, **account: Unpack[Account]
) -> list[HistoryRow]:
    """Trains an infiller and leaves a model folder with a card at `out`.

    Args:
        texts: gives the documents of the corpus anew at every call.
        account: sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: as of `build`.
    """
    data = digest_of_texts(texts())

    def begin(spec: InfillerSpec, place: Workplace) -> Beginning:
        kept = place.checkpoint / f"tokenizer-{spec.vocabulary}-{data[:12]}"
        model, tokenizer = _begin(texts, spec, kept, place.device)
        corpus = tokenise(texts(), tokenizer)
        place.notes(corpus.contents("documents"))

        def save(last: HistoryRow) -> Mapping[str, str]:
            save_model(model, tokenizer, place.out, half=spec.half)
            return {"Loss": f"{last.validation['loss']:.4f} nats a token on held-out documents"}

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
        raise UserError(f"{spec.tokenizer} holds no tokenizer.json")
    tokenizer = saved_tokenizer(
        Path(spec.tokenizer) if spec.tokenizer else folder,
        lambda: train_tokenizer(sample_of(texts()), spec.vocabulary),
    )
    model = new_model(spec.family, spec.size, len(tokenizer), spec.recipe.seed, positions=POSITIONS)
    fuse_activations(model)
    return model.to(device), tokenizer
