"""The file that says what a run of generative CDM does."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from levelfield.core.errors import InputError, UserError
from levelfield.core.limits import SEED
from levelfield.core.options import Options, group, option
from levelfield.io.problems import printable, shown
from levelfield.io.toml import TomlTable, read_toml
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.train.cdm.manipulate import strategy
from levelfield.train.discriminator import DiscriminatorSpec
from levelfield.train.infiller import InfillerSpec, Size
from levelfield.train.recipe import Recipe

S = TypeVar("S", InfillerSpec, DiscriminatorSpec)
Unit = Literal["turns", "sentences"]

INFILLER = InfillerSpec(Recipe(3_000, 3e-4, precision="auto"), size=Size(256, 3, 768))
DISCRIMINATOR = DiscriminatorSpec(Recipe(1_000, 5e-5, precision="auto"), window=512)
"""What stages are where the plan says nothing."""


@dataclass(frozen=True)
class NegativesPlan(Options):
    """Settings of the negatives."""

    strategy: str = option(
        "mixed-multi",
        "Places where texts are cut, as in Table 3, and how often.",
        example='"mixed-multi"',
    )
    gamma: float = option(
        1.0,
        "Weight γ in log p⁻ ∝ log p_a − γ m; 0 samples from the amateur alone (Table 5).",
        least=0,
        below=10**6,
    )
    unit: Unit = option("turns", "Parts of a text: turns (its lines) or sentences.")
    max_tokens: int = option(
        64, "Maximum number of tokens in a new segment.", least=0, most=65_536, key="max-tokens"
    )
    limit: int | None = option(
        None, "Number of texts to use, from the first on; 0 for all.", least=0
    )


@dataclass(frozen=True)
class CDMPlan(Options):
    """What a file asks for. A model is a name, or how to train it."""

    corpus: tuple[str, ...] = option(
        help="Files of text to learn from, beside the plan.",
        example='["dialogues.txt"]',
        fewest=1,
    )
    sources: tuple[str, ...] = option(
        (),
        "Lines for the model cards that name the corpus and its licence.",
        example='["our chats, CC0"]',
    )
    seed: int = option(0, "Seed of every stage.", least=0, most=SEED)
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine", "allow_pickle"))
    amateur: str | InfillerSpec = option(INFILLER, "Settings of the weaker infiller.")
    expert: str | InfillerSpec = option(INFILLER, "Settings of the stronger infiller.")
    negatives: NegativesPlan = option(NegativesPlan(), "Settings of the negatives.")
    discriminator: DiscriminatorSpec = option(
        DISCRIMINATOR, "Settings of the classifier of the last stage."
    )


def load_cdm_plan(path: Path) -> CDMPlan:
    """Returns the plan in a file. Nothing is loaded or trained.

    Raises:
        UserError: the file does not exist, or is not TOML.
        InputError: the plan has faults; each is a line of the message.
    """
    name = printable(str(path))
    problems: list[str] = []
    top = TomlTable(read_toml(path, name), "", problems)
    stages = ("amateur", "expert", "negatives", "discriminator")
    whole = top.values(CDMPlan, without=stages)
    names = whole.get("corpus", ())
    for file in names:
        if not (path.parent / file).is_file():
            top.wrong_field("corpus", f"there is no file {shown(file)} next to the plan")
    shared = {"seed": whole.get("seed", 0), "device": whole.get("device", "auto")}
    discriminator = top.table("discriminator")
    plan = {
        **whole,
        "corpus": [str(path.parent / file) for file in names],
        "amateur": _infiller(top.table("amateur"), shared, "google-t5/t5-small", path.parent),
        "expert": _infiller(top.table("expert"), shared, "google-t5/t5-large", path.parent),
        "negatives": _negatives(top.table("negatives")),
        "discriminator": _stage(discriminator, DISCRIMINATOR, shared, path.parent),
    }
    discriminator.finish()
    top.finish()
    if problems:
        raise InputError([f"{name}: {problem}" for problem in problems])
    return CDMPlan.of(**plan)


def _infiller(
    table: TomlTable, shared: dict[str, Any], default: str, folder: Path
) -> str | InfillerSpec:
    if "model" in table:
        name = table.text("model", '"google-t5/t5-small"', default=default)
        table.finish(elsewhere={"steps": "a model that is used as it is has no steps; use start"})
        return _beside(name, folder)
    spec = _stage(table, INFILLER.replace(start=default), shared, folder)
    table.finish()
    return spec.replace(start="") if spec.start == "random" else spec


def _stage(table: TomlTable, spec: S, shared: dict[str, Any], folder: Path) -> S:
    """Returns a stage by its table; a model that is a folder beside the plan is meant to be
    that."""
    values = table.values(type(spec), without=tuple(shared))
    names = {name: _beside(values[name], folder) for name in ("start", "tokenizer") & values.keys()}
    return spec.replace(**{**shared, **values, **names})


def _beside(name: str, folder: Path) -> str:
    return str(folder / name) if name and (folder / name).is_dir() else name


def _negatives(table: TomlTable) -> NegativesPlan:
    values = table.values(NegativesPlan)
    try:
        strategy(values.get("strategy", NegativesPlan.strategy))
    except UserError as error:
        table.wrong_field("strategy", str(error))
    table.finish()
    return NegativesPlan(**{**values, "limit": values.get("limit") or None})
