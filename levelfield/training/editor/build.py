"""From a corpus to an editor's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Unpack

from levelfield.generation.editor import EditorNetwork
from levelfield.generation.editor_tokens import EditorTokens
from levelfield.models.resolve import resolve
from levelfield.models.torch.loading import load_pretrained
from levelfield.training.builder import Account, Beginning, Workplace, build, stepwise
from levelfield.training.corpus import digest_of_texts, tokenise
from levelfield.training.editor import EditorSpec
from levelfield.training.editor.architecture import new_body, new_head, save_editor
from levelfield.training.editor.sentences import some_sentences
from levelfield.training.editor.task import Editing
from levelfield.training.folder import digest_of_weights
from levelfield.training.loop import HistoryRow


def build_editor(
    texts: Callable[[], Iterator[str]],
    spec: EditorSpec,
    out: Path,
    **account: Unpack[Account],
) -> list[HistoryRow]:
    """Trains an editor and leaves a model folder with a card at `out`.

    Args:
        texts: gives the documents of the corpus anew at every call.
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
