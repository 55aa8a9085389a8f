"""From pairs to a rewriter's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from levelfield.core.errors import UserError
from levelfield.generation.seq2seq import Seq2Seq, as_seq2seq, open_seq2seq
from levelfield.io import atomic_writer
from levelfield.models.rewriters import REWRITER, RewriterFile, read_rewriter
from levelfield.training.builder import Account, Beginning, Workplace, build, stepwise
from levelfield.training.folder import digest_of_weights, save_model
from levelfield.training.loop import HistoryRow
from levelfield.training.rewriter import RewriterSpec
from levelfield.training.rewriter.copier import VOCABULARY, new_copier
from levelfield.training.rewriter.figures import facts_of, held_out_figures
from levelfield.training.rewriter.pairs import RewritingPairs
from levelfield.training.rewriter.rewards import Rewards
from levelfield.training.rewriter.task import Rewriting


def build_rewriter(
    pairs: RewritingPairs, spec: RewriterSpec, out: Path, **account: Unpack[Account]
) -> RewriterFile:
    """Fine-tunes an encoder-decoder on pairs, tries it on those held out, and leaves a model folder
    with a card at `out`.

    Args:
        account: sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: a judge or metric that is missing, and as of `build`.
    """

    def begin(spec: RewriterSpec, place: Workplace) -> Beginning:
        model = _begun(spec)
        _check_lengths(model, pairs)
        rewards = Rewards(spec.rewards, pairs.attribute, spec.loading) if spec.rewards else None
        before = held_out_figures(model, pairs, spec)

        def save(_: HistoryRow) -> Mapping[str, str]:
            figures = held_out_figures(model, pairs, spec)
            save_model(model.model, model.tokenizer, place.out, half=spec.half)
            about = RewriterFile(pairs.attribute, pairs.labels, model.label, figures)
            with atomic_writer(place.out / REWRITER) as file:
                file.write(json.dumps(about.to_dict(), indent=1, ensure_ascii=False) + "\n")
            return {**facts_of("Held out, before", before), **facts_of("Held out, after", figures)}

        start = digest_of_weights(model.model)
        kept = sum(pair.source.split() == pair.text.split() for pair in pairs.test)
        return Beginning(
            "rewrites a sentence in a wanted style",
            model.model,
            Rewriting(pairs, model, spec.batch, spec.recipe.seed, start, rewards),
            model.label,
            f"{spec.batch} pairs",
            save,
            {
                "Attribute": pairs.attribute,
                "Labels": ", ".join(pairs.labels),
                "Pairs": f"{len(pairs.train):,} to learn from, {len(pairs.test):,} held out, of "
                f"which {kept} need no change",
                "Rewards": "; ".join(rewards.signatures) if rewards else "none",
            },
        )

    build(stepwise(begin), spec, pairs.digest, out, what="rewriter", **account)
    return read_rewriter(out, out.name)


def _begun(spec: RewriterSpec) -> Seq2Seq:
    """The model before the first step; the same one every time."""
    if spec.start:
        return open_seq2seq(spec.start, spec.loading)
    return as_seq2seq(
        *new_copier(spec.recipe.seed, spec.loading), f"a copier, {VOCABULARY}'s words"
    )


def _check_lengths(model: Seq2Seq, pairs: RewritingPairs) -> None:
    long = max(len(model.target(pair.text)) for pair in pairs.train)
    if long >= model.limit:
        raise UserError(f"a text of the pairs has {model.limit} tokens or more; leave it out")
