"""The kinds of guides: the settings of each, where it is trained, and which techniques need it."""

# Annotations stay objects here, since options are read from them.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from levelfield.core.errors import UserError
from levelfield.core.options import Options, choices, option, parsed
from levelfield.io.problems import shown
from levelfield.models.guides import GuideKind
from levelfield.train.recipe import HeldOutOptions

EPOCHS = "Number of passes over the texts."
BATCH = "Texts per step."
TOKENS = "Maximum number of tokens per text; longer texts are cut."
RATE = "Learning rate after the warm-up, a {} of the steps; falls to a tenth."


@dataclass(frozen=True)
class GuideData(HeldOutOptions):
    """Which texts a guide learns, and which are held out."""

    held_out: tuple[str, ...] = option(
        (),
        "File of texts to test the guide on, or a data set, whose part test is used; may be given "
        "again.",
        is_file=True,
        metavar="NAME|FILE",
    )
    share: float | None = option(
        0.05,
        "Share of the texts to test the guide on, if nothing is held out.",
        above=0,
        below=1,
    )
    sentences: int = option(
        1, "Number of sentences per passage that is cut from the reviews of a data set.", least=1
    )


@dataclass(frozen=True)
class ClassLMSettings(Options):
    """How a class-conditional model is trained."""

    lam: float = option(
        0.8,
        "Share λ of the generative loss of a class-conditional model; the rest is the weight of "
        "telling labels apart.",
        least=0,
        most=1,
        flags=("--lambda",),
    )
    layers: int = option(15, "Number of the base's upper layers that are trained.", least=1)
    rank: int = option(8, "Rank of the adapter.", least=1, most=1024)
    tokens: int = option(48, TOKENS, least=1)
    epochs: float = option(1.0, EPOCHS, above=0, most=10_000)
    batch: int = option(16, BATCH, least=1)
    learning_rate: float = option(1e-3, RATE.format("twentieth"), above=0)


@dataclass(frozen=True)
class FutureSettings(Options):
    """How a future discriminator is trained."""

    width: int = option(
        64,
        "Width of FUDGE's network, with one attention head per 16.",
        fits=lambda width: width >= 16 and width % 16 == 0,
        expected="a multiple of 16",
    )
    layers: int = option(2, "Number of layers of the network.", least=1)
    dropout: float = option(0.2, "Dropout of FUDGE's network, in training.", least=0, below=1)
    tokens: int = option(128, TOKENS, least=1)
    epochs: float = option(1.0, EPOCHS, above=0, most=10_000)
    batch: int = option(64, BATCH, least=1)
    learning_rate: float = option(1e-3, RATE.format("tenth"), above=0)


@dataclass(frozen=True)
class HeadSettings(Options):
    """How a head is trained."""

    tokens: int = option(128, TOKENS, least=1)
    l2: float = option(
        0.03, "Weight of |W|² / 2, for W on states of mean 0 and deviation 1.", least=0
    )


Normalised = Literal["candidates", "vocabulary"]


@dataclass(frozen=True)
class SoftPromptSettings(Options):
    """How soft prompts are distilled; `Distillation` has the loss."""

    prompt: str = option(
        "10",
        "Number m of embeddings per prompt, or LABEL=NUMBER for each label, separated by commas.",
    )
    start: str = option(
        " {label}",
        "Text whose embeddings a prompt begins with, repeated up to m tokens; {label} and "
        "{attribute} are replaced. Empty for zeros, as the authors have it.",
    )
    teacher: str = option(
        "class-lm",
        "Discriminator: a guide by name or folder, or a kind of guide (class-lm, future), for "
        "which the one that comes with the package is used.",
    )
    candidates: int = option(110, "Number K of likely next tokens to learn from.", least=2)
    temperature: float = option(0.03, "Temperature τ of the targets softmax(y / τ).", above=0)
    anchor: float = option(
        1.0, "Weight β of the base's own log p in the targets softmax(y / τ + β log p).", least=0
    )
    unlikelihood: float = option(1.0, "Weight of the sum over unlikely tokens.", least=0)
    normalised: Normalised = option(
        "vocabulary", "Tokens over which the probabilities of the base sum to 1."
    )
    tokens: int = option(30, TOKENS, least=1)
    epochs: float = option(0.2, EPOCHS, above=0, most=10_000)
    batch: int = option(8, BATCH, least=1)
    learning_rate: float = option(2e-3, RATE.format("twentieth"), above=0)

    def lengths(self, labels: Sequence[str]) -> dict[str, int]:
        """Returns m of each label.

        Raises:
            UserError: a label without a number or a number without a label, or none at all.
        """
        parts = [part.rpartition("=") for part in self.prompt.split(",")]
        words = {label.strip(): number.strip() for label, _, number in parts}
        if words.keys() == {""}:
            words = dict.fromkeys(labels, words[""])
        if words.keys() != set(labels) or not all(n.isdecimal() and int(n) for n in words.values()):
            raise UserError(
                f"prompt is {shown(self.prompt)}; expected a number of at least 1, or one for each "
                f"label, as in {','.join(f'{label}=10' for label in labels)}"
            )
        return {label: int(words[label]) for label in labels}


@dataclass(frozen=True)
class LatentSettings(Options):
    """How latents, prefixes and the flow are trained."""

    encoder: str = option(
        "offline/minilm", "Model of sentence embeddings; its weights stay as they are."
    )
    size: int = option(64, "Size d of a latent.", least=2)
    positions: int = option(8, "Number P of virtual positions of a prefix.", least=1)
    rank: int = option(
        64, "Rank of the map from latents to keys and values; 0 for full rank.", least=0
    )
    texts: int = option(
        0, "Maximum number of texts per label to learn from, drawn by the seed; 0 for all.", least=0
    )
    noise: float = option(
        1e-3, "Standard deviation of the noise added to latents in training.", least=0
    )
    kept: int = option(
        2000,
        "Maximum number of latents per label that stay in the guide, for the search of MultiCTG.",
        least=1,
    )
    tokens: int = option(20, TOKENS, least=1)
    epochs: float = option(0.5, EPOCHS, above=0, most=10_000)
    batch: int = option(16, BATCH, least=1)
    learning_rate: float = option(5e-3, RATE.format("twentieth"), above=0)
    head_steps: int = option(
        300, "Number of steps for encoder and head alone, before those with the base.", least=0
    )
    flow_blocks: int = option(8, "Number of affine couplings of the flow.", least=1)
    flow_width: int = option(128, "Width of a coupling's network.", least=1)
    flow_steps: int = option(2000, "Number of steps of the flow's own training.", least=1)


@dataclass(frozen=True)
class VectorSettings(Options):
    """How steering vectors are measured."""

    states: Literal["mean", "last"] = option(
        "mean", "State of a text in each layer: the mean over its tokens, or that of the last."
    )
    layer: int | None = option(
        None,
        "Layer whose vector techniques use unless they name another, counted from 0.",
        least=0,
        otherwise="the one two thirds of the way up",
    )
    texts: int = option(
        0, "Maximum number of texts per label to read, drawn by the seed; 0 for all.", least=0
    )
    tokens: int = option(128, TOKENS, least=1)


@dataclass(frozen=True)
class HeadsSettings(Options):
    """How directions of attention heads are measured."""

    states: Literal["mean", "last"] = option(
        "mean",
        "Output of each head that represents a text: the mean over its tokens, or that of the "
        "last one, as in ITI.",
    )
    texts: int = option(
        0, "Maximum number of texts per label to read, drawn by the seed; 0 for all.", least=0
    )
    tokens: int = option(128, TOKENS, least=1)


@dataclass(frozen=True)
class ReftSettings(Options):
    """How edits of states are trained."""

    rank: int = option(4, "Rank r of an edit.", least=1, most=1024)
    edited_layers: str = option(
        "",
        "Layers whose states are edited: numbers and ranges, counted from 0, as in 8-12,15.",
        otherwise="all",
        metavar="LAYERS",
    )
    tokens: int = option(48, TOKENS, least=1)
    epochs: float = option(1.0, EPOCHS, above=0, most=10_000)
    batch: int = option(16, BATCH, least=1)
    learning_rate: float = option(4e-3, RATE.format("twentieth"), above=0)


SETTINGS: Mapping[GuideKind, type[Options]] = {
    "class-lm": ClassLMSettings,
    "future": FutureSettings,
    "head": HeadSettings,
    "soft-prompt": SoftPromptSettings,
    "latent": LatentSettings,
    "vector": VectorSettings,
    "heads": HeadsSettings,
    "reft": ReftSettings,
}
"""Kind of guide -> its settings, by the names of the options of `levelfield train guide`."""

TECHNIQUES: Mapping[str, GuideKind] = {
    "gedi": "class-lm",
    "dexperts": "class-lm",
    "ctrl-lite": "class-lm",
    "proxy-tuning": "class-lm",
    "genarm": "class-lm",
    "air-decoding": "class-lm",
    "fudge": "future",
    "smc": "future",
    "pplm": "head",
    "discup": "soft-prompt",
    "multictg": "latent",
    "priorctg": "latent",
    "caa": "vector",
    "ablation": "vector",
    "iti": "heads",
    "loreft": "reft",
}
"""Technique -> the kind of guide that it needs."""

KINDS: Mapping[GuideKind, str] = {
    "class-lm": "levelfield.generation.techniques._class_lm.training:CLASS_LM",
    "future": "levelfield.generation.techniques._future.training:FUTURE",
    "head": "levelfield.generation.techniques._head.training:HEAD",
    "soft-prompt": "levelfield.generation.techniques.discup.training:SOFT_PROMPT",
    "latent": "levelfield.generation.techniques._latent.training:LATENT",
    "vector": "levelfield.generation.techniques._steering.training:VECTOR",
    "heads": "levelfield.generation.techniques.iti.training:HEADS",
    "reft": "levelfield.generation.techniques.loreft.training:REFT",
}
"""Kind -> where its `GuideTraining` is; none is imported before it is used."""

OF_SEVERAL: frozenset[GuideKind] = frozenset({"latent"})
"""Kinds of guides that serve several attributes at once."""


def settings_of(kind: GuideKind, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults of a kind, and what the user gave in their place; None is not given.

    Args:
        settings: values, or words as the user wrote them.

    Raises:
        UserError: a setting that the kind does not have, or a word that is no value of it.
    """
    values = {name: value for name, value in settings.items() if value is not None}
    options = choices(SETTINGS[kind])
    if foreign := sorted(values.keys() - options.keys()):
        flag = {"lam": "lambda"}.get(foreign[0], foreign[0].replace("_", "-"))
        raise UserError(f"--{flag} is not an option of this kind of guide; leave it out")
    return SETTINGS[kind].of(**parsed("guide", options, values)).to_dict()
