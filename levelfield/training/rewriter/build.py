"""From pairs to a rewriter's folder."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.core.registry import create
from levelfield.generation.seq2seq import Seq2Seq, as_seq2seq, open_seq2seq
from levelfield.io import atomic_writer
from levelfield.models.files import quiet
from levelfield.models.loading import Loading
from levelfield.models.rewriters import REWRITER, RewriterFile, read_rewriter
from levelfield.training.card import Card, write_card
from levelfield.training.folder import close, digest_of_weights, opened, run_of
from levelfield.training.loop import HistoryRow, Recipe, fit
from levelfield.training.rewriter.copier import VOCABULARY, new_copier
from levelfield.training.rewriter.pairs import RewritingPairs
from levelfield.training.rewriter.rewards import Rewards, RewardSpec, samples_of
from levelfield.training.rewriter.task import Rewriting, greedy_texts, mean_loss


@dataclass(frozen=True)
class RewriterSpec:
    """What to train.

    Attributes:
        recipe: steps, rates and seed.
        start: the base, an encoder-decoder or a rewriter to go on from; empty for a small new model
            that begins as a copier.
        batch: pairs a step.
        rewards: none by default.
        judges: that say how often the style of held-out rewrites is right; empty for none.
        half: save weights in half precision.
        allow_pickle: take a base whose weights are pickled.
    """

    recipe: Recipe
    start: str = ""
    batch: int = 32
    rewards: RewardSpec = field(default_factory=RewardSpec)
    judges: str = ""
    half: bool = False
    device: str = "auto"
    allow_pickle: bool = False


def build_rewriter(
    pairs: RewritingPairs,
    spec: RewriterSpec,
    out: Path,
    *,
    sources: Sequence[str] = (),
    notes: Callable[[str], object] = lambda _: None,
    progress: Progress = no_progress,
) -> RewriterFile:
    """Fine-tunes an encoder-decoder on pairs, tries it on those held out, and leaves a model folder
    with a card at `out`.

    A run that was killed is run again and goes on from its last checkpoint; a folder that holds the
    finished rewriter of the same run is left as it is. Equal pairs and spec give equal weights on
    one CPU.

    Args:
        sources: for the card: what the pairs are and their licence, a line each.
        progress: called with steps done.

    Raises:
        UserError, ModelError: a folder with something else in it, a base that is missing or no
            encoder-decoder, a judge or metric that is missing.
    """
    quiet()
    run = run_of(spec, pairs.digest)
    if opened(out, run) is not None:
        notes(f"{out} holds this rewriter already")
        return read_rewriter(out, out.name)
    model = _begun(spec)
    _check_lengths(model, pairs)
    rewards = Rewards(spec.rewards, pairs.attribute, spec.device) if spec.rewards else None
    task = Rewriting(
        pairs, model, spec.batch, spec.recipe.seed, digest_of_weights(model.model), rewards
    )
    before = held_out_figures(model, pairs, spec)
    history = fit(model.model, task, spec.recipe, out / "training", progress=progress)
    figures = held_out_figures(model, pairs, spec)
    if spec.half:
        model.model.half()
    model.model.save_pretrained(out)
    model.tokenizer.save_pretrained(out)
    about = RewriterFile(pairs.attribute, pairs.labels, model.label, figures)
    with atomic_writer(out / REWRITER) as file:
        file.write(json.dumps(about.to_dict(), indent=1, ensure_ascii=False) + "\n")
    write_card(_card(out.name, about, pairs, spec, before, history, rewards, tuple(sources)), out)
    close(out, run, history)
    return about


def _begun(spec: RewriterSpec) -> Seq2Seq:
    """The model before the first step; the same one every time."""
    if spec.start:
        loading = Loading(device=spec.device, allow_pickle=spec.allow_pickle)
        return open_seq2seq(spec.start, loading)
    return as_seq2seq(*new_copier(spec.recipe.seed, spec.device), f"a copier, {VOCABULARY}'s words")


def held_out_figures(
    model: Seq2Seq, pairs: RewritingPairs, spec: RewriterSpec
) -> dict[str, float | None]:
    """Figures on held-out pairs; greedy texts.

    Returns:
        `n` pairs; `loss` in nats a token; `copies`, the share of texts equal to their source;
        `bleu` and `chrf`, means over texts against the text of the pair, 0 to 100; `style`, the
        share of judges that find the wanted style, None without judges. Nothing without pairs.
    """
    if not pairs.test:
        return {"n": 0}
    texts = greedy_texts(model, pairs.test, spec.batch)
    samples = samples_of(texts, pairs.test, pairs.attribute)
    figures: dict[str, float | None] = {
        "n": len(samples),
        "loss": mean_loss(model, pairs.test, spec.batch),
        "copies": float(np.mean([s.text.split() == s.source.split() for s in samples])),
    }
    names = {"bleu": "bleu.references", "chrf": "chrf.references"}
    names |= {"style": "control.average"} if spec.judges else {}
    common = {"judges": spec.judges, "device": spec.device}
    for name, metric in zip(names, create([*names.values()], common, {}), strict=True):
        values = metric.score(samples).values
        figures[name] = None if np.isnan(values).all() else float(np.nanmean(values))
    return {name: value if value is None else round(value, 6) for name, value in figures.items()}


def _check_lengths(model: Seq2Seq, pairs: RewritingPairs) -> None:
    long = max(len(model.target(pair.text)) for pair in pairs.train)
    if long >= model.limit:
        raise UserError(f"a text of the pairs has {model.limit} tokens or more; leave it out")


def _card(
    name: str,
    about: RewriterFile,
    pairs: RewritingPairs,
    spec: RewriterSpec,
    before: Mapping[str, float | None],
    history: Sequence[HistoryRow],
    rewards: Rewards | None,
    sources: tuple[str, ...],
) -> Card:
    recipe = spec.recipe
    kept = [pair for pair in pairs.test if pair.source.split() == pair.text.split()]
    facts = {
        "Attribute": about.attribute,
        "Labels": ", ".join(about.labels),
        "Begun from": about.base,
        "Pairs": f"{len(pairs.train):,} to learn from, {len(pairs.test):,} held out, of which "
        f"{len(kept)} need no change",
        "Steps": f"{recipe.steps:,} of {spec.batch} pairs, learning rate {recipe.learning_rate:g}",
        "Rewards": "; ".join(rewards.signatures) if rewards else "none",
        "Time": f"{history[-1].seconds / 60:.1f} minutes",
        **_figures("Held out, before", before),
        **_figures("Held out, after", about.figures),
        "Seed": str(recipe.seed),
        "Made with": f"PyTorch {torch.__version__}, Python {platform.python_version()}",
    }
    return Card(name, "rewrites a sentence in a wanted style", facts, sources)


def _figures(when: str, figures: Mapping[str, float | None]) -> dict[str, str]:
    said = {
        "loss": "{:.4f} nats a token",
        "copies": "{:.3f} of texts equal their source",
        "bleu": "BLEU {:.1f} against the text of the pair",
        "chrf": "chrF {:.1f}",
        "style": "{:.3f} of judges find the wanted style",
    }
    words = [said[k].format(v) for k, v in figures.items() if k in said and v is not None]
    return {when: ", ".join(words)} if words else {}
