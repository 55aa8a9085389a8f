"""The file that says what a run of generative CDM does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from levelfield.core.errors import InputError, UserError
from levelfield.io.problems import printable, shown
from levelfield.io.toml import TomlTable, read_toml
from levelfield.models.torch.loading import pick_device
from levelfield.training.cdm.manipulate import strategy
from levelfield.training.discriminator.build import DiscriminatorSpec
from levelfield.training.infiller.architecture import Size
from levelfield.training.infiller.build import InfillerSpec
from levelfield.training.loop import Recipe

Unit = Literal["turns", "sentences"]


@dataclass(frozen=True)
class NegativesPlan:
    """How negatives are made.

    Attributes:
        strategy: where texts are cut, as in Table 3 (`manipulate`).
        gamma: γ of log p⁻ ∝ log p_a − γ m; 0 samples from the amateur alone (Table 5).
        unit: what a text is made of: turns (its lines) or sentences.
        max_tokens: of a new segment.
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
    amateur: str | InfillerSpec
    expert: str | InfillerSpec
    negatives: NegativesPlan
    discriminator: DiscriminatorSpec


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
) -> str | InfillerSpec:
    if "model" in table:
        name = _named(table, "model", default, folder)
        table.finish(elsewhere={"steps": "a model that is taken as it is has no steps; use start"})
        return name
    family = _choice(table, "family", ("t5", "causal"))
    start = _named(table, "start", default, folder)
    spec = InfillerSpec(
        recipe=_recipe(table, seed, device, steps=3000, learning_rate=3e-4),
        family="causal" if family == "causal" else "t5",
        start="" if start == "random" else start,
        size=Size(
            table.whole("width", 256, 8192),
            table.whole("layers", 3, 96),
            table.whole("inner", 768, 65_536),
        ),
        vocabulary=table.whole("vocabulary", 8192, 1_000_000),
        tokenizer=_named(table, "tokenizer", "", folder),
        batch=table.whole("batch", 32, 65_536),
        window=table.whole("window", 96, 65_536),
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
        max_tokens=table.whole("max-tokens", 64, 65_536),
        limit=table.whole("limit", 0) or None,
    )
    try:
        strategy(plan.strategy)
    except UserError as error:
        table.wrong_field("strategy", str(error))
    table.finish()
    return plan


def _discriminator(table: TomlTable, seed: int, device: str, folder: Path) -> DiscriminatorSpec:
    spec = DiscriminatorSpec(
        recipe=_recipe(table, seed, device, steps=1000, learning_rate=5e-5),
        start=_named(table, "start", "offline/minilm", folder),
        batch=table.whole("batch", 16, 65_536),
        window=table.whole("window", 512, 65_536),
        device=device,
    )
    table.finish()
    return spec


def _choice(table: TomlTable, key: str, among: tuple[str, ...]) -> str:
    value = table.text(key, f'"{among[0]}"', default=among[0])
    if value not in among:
        table.wrong_field(key, f"there is no {shown(value)}; there are {', '.join(among)}")
    return value
