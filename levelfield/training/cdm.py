"""Generative CDM from end to end: Algorithm 1 of Lu et al. 2024, section 3.4.1, as one run.

A file says what the corpus is, which two infillers there are or how they are trained, how negatives
are made and how the discriminator is trained; `docs/cdm.md` has its keys. Everything lies in one
folder: `amateur`, `expert` (unless models are named), `negatives.jsonl` and `discriminator`. Each
stage goes on where it was, and a finished one is left as it is, so the whole is run again after a
kill until it is done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from levelfield.core.errors import InputError, UserError
from levelfield.core.progress import Progress
from levelfield.io.corpus import corpus_texts
from levelfield.io.problems import printable, shown
from levelfield.io.toml import TomlTable, read_toml
from levelfield.metrics.text import segmenter
from levelfield.models.resolve import resolve
from levelfield.models.torch.contrast import load_contrast
from levelfield.models.torch.loading import pick_device
from levelfield.training import build, discriminator
from levelfield.training.corpus import documents
from levelfield.training.infiller import Size
from levelfield.training.loop import Recipe, Row
from levelfield.training.manipulate import Document, strategy
from levelfield.training.negatives import make_negatives

Unit = Literal["turns", "sentences"]
Bar = Callable[[str, int | None], AbstractContextManager[Progress]]
"""Opens a progress bar: what is done, and of how many."""

SEPARATORS = {"turns": "\n", "sentences": " "}


@dataclass(frozen=True)
class NegativesPlan:
    """How negatives are made.

    Attributes:
        strategy: where texts are cut, as in Table 3 (`training.manipulate`).
        gamma: γ of log p⁻ ∝ log p_a − γ m; 0 samples from the amateur alone (Table 5).
        unit: what a text is made of: turns (its lines) or sentences.
        max_tokens: of a segment that is written anew.
        limit: how many texts are used, from the first on; None for all.
    """

    strategy: str
    gamma: float
    unit: Unit
    max_tokens: int
    limit: int | None


@dataclass(frozen=True)
class CDMPlan:
    """What a file asks for. A model is a name, or how to train it."""

    corpus: tuple[Path, ...]
    sources: tuple[str, ...]
    seed: int
    device: str
    amateur: str | build.Spec
    expert: str | build.Spec
    negatives: NegativesPlan
    discriminator: discriminator.Spec


def load_cdm_plan(path: Path) -> CDMPlan:
    """The plan in a file. Nothing is loaded or trained.

    Raises:
        UserError: there is no such file, or it is not TOML.
        InputError: with everything that is wrong in it, one line each.
    """
    name = printable(str(path))
    problems: list[str] = []
    top = TomlTable(read_toml(path, name), "", problems)
    named = top.texts("corpus", '["dialogues.txt"]') or ()
    corpus = tuple(path.parent / file for file in named)
    if "corpus" not in top:
        top.wrong_field("corpus", "expected a list of files; there is none")
    for file, here in zip(named, corpus, strict=True):
        if not here.is_file():
            top.wrong_field("corpus", f"there is no file {shown(file)} beside the plan")
    sources = top.texts("sources", '["our chats, CC0"]') or ()
    seed = top.whole("seed", 0)
    device = top.text("device", '"cpu"', default="auto")
    plan = CDMPlan(
        corpus=corpus,
        sources=sources,
        seed=seed,
        device=device,
        amateur=_model(top.table("amateur"), seed, device, "google-t5/t5-small", path.parent),
        expert=_model(top.table("expert"), seed, device, "google-t5/t5-large", path.parent),
        negatives=_negatives(top.table("negatives")),
        discriminator=_discriminator(top.table("discriminator"), seed, device, path.parent),
    )
    top.finish()
    if problems:
        raise InputError([f"{name}: {problem}" for problem in problems])
    return plan


def _named(table: TomlTable, key: str, default: str, folder: Path) -> str:
    """A model's name; one that is a folder beside the file is meant to be that."""
    name = table.text(key, '"google-t5/t5-small"', default=default)
    if not name:
        return ""
    return str(folder / name) if (folder / name).is_dir() else name


def _model(
    table: TomlTable, seed: int, device: str, default: str, folder: Path
) -> str | build.Spec:
    if "model" in table:
        name = _named(table, "model", default, folder)
        table.finish(elsewhere={"steps": "a model that is taken as it is has no steps; use start"})
        return name
    family = _choice(table, "family", ("t5", "causal"))
    start = _named(table, "start", default, folder)
    spec = build.Spec(
        recipe=_recipe(table, seed, device, steps=3000, learning_rate=3e-4),
        family="causal" if family == "causal" else "t5",
        start="" if start == "random" else start,
        size=Size(table.whole("width", 256), table.whole("layers", 3), table.whole("inner", 768)),
        vocabulary=table.whole("vocabulary", 8192),
        tokenizer=_named(table, "tokenizer", "", folder),
        batch=table.whole("batch", 32),
        window=table.whole("window", 96),
        device=device,
    )
    table.finish()
    return spec


def _recipe(
    table: TomlTable, seed: int, device: str, *, steps: int, learning_rate: float
) -> Recipe:
    on_gpu = pick_device(device).type == "cuda"
    return Recipe(
        steps=max(1, table.whole("steps", steps)),
        learning_rate=table.number("learning-rate", learning_rate),
        every=max(1, table.whole("every", 500)),
        seed=seed,
        precision="bfloat16" if on_gpu else "float32",
    )


def _negatives(table: TomlTable) -> NegativesPlan:
    gamma = table.take("gamma")
    if gamma is None:
        gamma = 1.0
    if not isinstance(gamma, int | float) or isinstance(gamma, bool) or not 0 <= gamma < 1e6:
        table.wrong_field("gamma", "expected a number from 0 on")
        gamma = 1.0
    plan = NegativesPlan(
        strategy=table.text("strategy", '"mixed-multi"', default="mixed-multi"),
        gamma=float(gamma),
        unit="sentences"
        if _choice(table, "unit", ("turns", "sentences")) == "sentences"
        else "turns",
        max_tokens=table.whole("max-tokens", 64),
        limit=table.whole("limit", 0) or None,
    )
    try:
        strategy(plan.strategy)
    except UserError as error:
        table.wrong_field("strategy", str(error))
    table.finish()
    return plan


def _discriminator(table: TomlTable, seed: int, device: str, folder: Path) -> discriminator.Spec:
    spec = discriminator.Spec(
        recipe=_recipe(table, seed, device, steps=1000, learning_rate=5e-5),
        start=_named(table, "start", "offline/minilm", folder),
        batch=table.whole("batch", 16),
        window=table.whole("window", 512),
        device=device,
    )
    table.finish()
    return spec


def _choice(table: TomlTable, key: str, among: tuple[str, ...]) -> str:
    value = table.text(key, f'"{among[0]}"', default=among[0])
    if value not in among:
        table.wrong_field(key, f"there is no {shown(value)}; there are {', '.join(among)}")
    return value


def run_cdm(plan: CDMPlan, out: Path, *, notes: Callable[[str], object], bar: Bar) -> list[Row]:
    """Algorithm 1; gives the discriminator's history, which ends with its held-out accuracy.

    Raises:
        UserError, ModelError: what a stage can't do: vocabularies that differ, an empty corpus, a
            folder made with other choices.
    """
    out.mkdir(parents=True, exist_ok=True)
    amateur = _infiller(plan, "amateur", out, notes, bar)
    plain = plan.negatives.gamma == 0  # the expert has no part in it
    expert = None if plain else _infiller(plan, "expert", out, notes, bar, amateur)
    chosen = plan.negatives
    sampler = load_contrast(amateur, expert, chosen.gamma, device=plan.device)
    texts = numbered(documents_of(plan.corpus), chosen.unit, chosen.limit)
    with bar("negatives", chosen.limit) as progress:
        made = make_negatives(
            texts,
            sampler,
            strategy(chosen.strategy),
            seed=plan.seed,
            out=out / "negatives.jsonl",
            max_tokens=chosen.max_tokens,
            separator=SEPARATORS[chosen.unit],
            progress=progress,
        )
    notes(f"{made.documents:,} texts manipulated, {made.unchanged:,} of them left unchanged")
    spec = plan.discriminator
    with bar("discriminator", spec.recipe.steps) as progress:
        return discriminator.build_discriminator(
            [made.path],
            spec,
            out / "discriminator",
            sources=plan.sources,
            separator=SEPARATORS[chosen.unit],
            notes=notes,
            progress=progress,
        )


def _infiller(
    plan: CDMPlan,
    which: Literal["amateur", "expert"],
    out: Path,
    notes: Callable[[str], object],
    bar: Bar,
    amateur: str = "",
) -> str:
    """The name of an infiller, trained if the plan says so; one that begins from nothing takes the
    amateur's tokenizer, since both need one vocabulary."""
    wanted = plan.amateur if which == "amateur" else plan.expert
    if isinstance(wanted, str):
        return wanted
    if amateur and not (wanted.start or wanted.tokenizer):
        wanted = dataclasses.replace(wanted, tokenizer=str(resolve(amateur).path))
    with bar(which, wanted.recipe.steps) as progress:
        history = build.build_infiller(
            lambda: documents_of(plan.corpus),
            wanted,
            out / which,
            sources=plan.sources,
            notes=notes,
            progress=progress,
        )
    notes(f"{which}: held-out loss {history[-1].validation['loss']:.4f} nats a token")
    return str(out / which)


def documents_of(files: Iterable[str | Path]) -> Iterator[str]:
    """The documents of all files, one file after the other."""
    for file in files:
        yield from documents(corpus_texts([file]))


def numbered(texts: Iterable[str], unit: Unit, limit: int | None) -> Iterator[tuple[str, Document]]:
    """Texts as (id, turns or sentences), as many as `limit`."""
    for number, text in enumerate(texts):
        if limit is not None and number >= limit:
            return
        lines = text.split("\n")
        parts = lines if unit == "turns" else segmenter.sentences(" ".join(lines), "english")
        yield str(number), tuple(parts)
