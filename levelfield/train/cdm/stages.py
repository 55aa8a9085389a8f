"""A run of generative CDM, stage by stage."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from levelfield.core.progress import Progress
from levelfield.models.resolve import resolve
from levelfield.text import segmenter
from levelfield.train.cdm.contrast import load_contrast
from levelfield.train.cdm.manipulate import Document, strategy
from levelfield.train.cdm.negatives import make_negatives
from levelfield.train.cdm.plan import CDMPlan, Unit
from levelfield.train.corpus import corpus_documents
from levelfield.train.discriminator.discrimination import build_discriminator
from levelfield.train.infiller import InfillerSpec
from levelfield.train.infiller.infilling import build_infiller
from levelfield.train.loop import HistoryRow

Bar = Callable[[str, int | None], AbstractContextManager[Progress]]
"""Opens a progress bar: what is done, and of how many."""

SEPARATORS = {"turns": "\n", "sentences": " "}


def run_cdm(
    plan: CDMPlan, out: Path, *, notes: Callable[[str], object], bar: Bar
) -> list[HistoryRow]:
    """Runs Algorithm 1; returns the discriminator's history, which ends with its held-out accuracy.

    Raises:
        UserError, ModelError: what a stage can't do: vocabularies that differ, an empty corpus, a
            folder made with other choices.
    """
    out.mkdir(parents=True, exist_ok=True)
    chosen = plan.negatives

    def infiller(stage: str, spec: str | InfillerSpec, amateur: str = "") -> str:
        """Returns the name of an infiller, trained if the plan says so; one that begins from
        nothing takes the amateur's tokenizer, since both need one vocabulary."""
        if isinstance(spec, str):
            return spec
        if amateur and not (spec.start or spec.tokenizer):
            spec = dataclasses.replace(spec, tokenizer=str(resolve(amateur).path))
        texts = functools.partial(corpus_documents, plan.corpus)
        with bar(stage, spec.recipe.steps) as progress:
            history = build_infiller(
                texts, spec, out / stage, sources=plan.sources, notes=notes, progress=progress
            )
        notes(f"{stage}: held-out loss {history[-1].validation['loss']:.4f} nats per token")
        return str(out / stage)

    amateur = infiller("amateur", plan.amateur)
    # without γ the expert has no part in it
    expert = infiller("expert", plan.expert, amateur) if chosen.gamma else None
    sampler = load_contrast(amateur, expert, chosen.gamma, loading=plan.loading)
    with bar("negatives", chosen.limit) as progress:
        negatives = make_negatives(
            numbered(corpus_documents(plan.corpus), chosen.unit, chosen.limit),
            sampler,
            strategy(chosen.strategy),
            seed=plan.seed,
            out=out / "negatives.jsonl",
            max_tokens=chosen.max_tokens,
            separator=SEPARATORS[chosen.unit],
            progress=progress,
        )
    notes(
        f"{negatives.documents:,} texts manipulated, {negatives.unchanged:,} of them left unchanged"
    )
    with bar("discriminator", plan.discriminator.recipe.steps) as progress:
        return build_discriminator(
            [negatives.path],
            plan.discriminator,
            out / "discriminator",
            separator=SEPARATORS[chosen.unit],
            sources=plan.sources,
            notes=notes,
            progress=progress,
        )


def numbered(texts: Iterable[str], unit: Unit, limit: int | None) -> Iterator[tuple[str, Document]]:
    """Yields texts as (id, turns or sentences), as many as `limit`."""
    for number, text in enumerate(texts):
        if limit is not None and number >= limit:
            return
        lines = text.split("\n")
        parts = lines if unit == "turns" else segmenter.sentences(" ".join(lines), "english")
        yield str(number), tuple(parts)
