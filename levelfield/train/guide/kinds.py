"""What a guide can be: the contract of a kind; and how one is trained."""

from __future__ import annotations

import json

# Annotations of options stay objects here, since options are read from them.
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import scipy

from levelfield.core.errors import UserError
from levelfield.core.limits import SEED
from levelfield.core.options import Options, group, option
from levelfield.io import atomic_writer
from levelfield.models.causal_tokens import reads_bos
from levelfield.models.guides import ABOUT, WEIGHTS, Guide, GuideKind, guide_named
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OFFLINE_LM, Resolved, resolve_causal
from levelfield.train.guide.settings import GuideSettings
from levelfield.train.guide.table import SETTINGS, training_of
from levelfield.train.labelled import Labelled
from levelfield.train.recipe import PassSettings, Recipe

if TYPE_CHECKING:
    import torch

    from levelfield.train.builder import Account, Workplace
    from levelfield.train.labelled import LabelledTexts
    from levelfield.train.loop import HistoryRow


@dataclass(frozen=True)
class GuideSpec(Options):
    """How a guide is trained."""

    kind: GuideKind = option(help="Kind of guide.", positional=True)
    attribute: str = option(
        help="Attribute whose labels are learnt: control.ATTRIBUTE of the samples; several, "
        "separated by commas, where the kind allows it.",
        positional=True,
    )
    settings: Mapping[str, Any] = option({}, "Settings of the kind.")
    start: str = option(
        OFFLINE_LM, "Base of the guide: a causal model.", flags=("--model",), metavar="NAME"
    )
    seed: int = option(0, "Seed of weights and batches.", least=0, most=SEED)
    precision: Literal["float32", "bfloat16"] = option(
        "float32", "Precision of matrix products; weights and their updates are always float32."
    )
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine"))

    def __post_init__(self) -> None:
        super().__post_init__()
        settings = SETTINGS.get(self.kind, GuideSettings)
        if "," in self.attribute and not settings.serves_several:
            raise UserError(
                f"guides of kind {self.kind} serve one attribute, not {self.attribute}; train one "
                "for each"
            )


@dataclass(frozen=True)
class TrainedGuide:
    """What training leaves.

    Attributes:
        settings: what `guide.json` says beside attribute, labels and base; held-out figures are
            under `figures`, a number each.
        tensors: of `guide.safetensors`.
        facts: rows for the card.
        history: of the training.
    """

    settings: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]
    facts: Mapping[str, str]
    history: list[HistoryRow]


@dataclass(frozen=True)
class GuideTraining:
    """How guides of one kind are trained.

    Attributes:
        train: trains a guide and tries it on the held-out texts.
        summary: what the guide does, in a few words, for the card.
    """

    train: Callable[[LabelledTexts, GuideSpec, Workplace], TrainedGuide]
    summary: str


def build_guide(
    texts: LabelledTexts, spec: GuideSpec, out: Path, **account: Unpack[Account]
) -> Guide:
    """Trains a guide, tests it on held-out texts, and writes its folder with a card at `out`.

    Equal texts, spec and seed give equal bytes on one CPU.

    Args:
        account: further sources for the card, and callbacks for progress and notes.

    Raises:
        UserError, ModelError: a base that is not a causal model, and as for `build`.
    """
    from levelfield.train.builder import Trained, build

    base = resolve_causal(spec.start, spec.loading)

    def train(spec: GuideSpec, place: Workplace) -> Trained:
        kind: GuideTraining = training_of(spec.kind)
        labels = texts.train.labels
        trained = kind.train(texts, spec, place)
        write_guide(
            out,
            kind=spec.kind,
            attribute=spec.attribute,
            labels=labels,
            base=base.name,
            revision=base.revision,
            settings={**trained.settings, **_begin(spec.kind, base)},
            tensors=trained.tensors,
        )
        facts = {
            "Kind": spec.kind,
            "Attribute": spec.attribute,
            "Labels": ", ".join(labels),
            "Base": base.label,
            "Texts": f"{len(texts.train):,} different ones to learn from, {len(texts.test):,} held "
            "out",
            **texts.facts,
            **trained.facts,
        }
        for attribute, doubt in doubtful_attributes(
            trained.settings.get("figures", {}), texts.test, spec
        ):
            place.notes(f"the guide may have learnt nothing about {attribute}: {doubt}")
            facts[f"Doubt about {attribute}"] = doubt
        return Trained(kind.summary, facts, trained.history)

    account["sources"] = (*texts.sources, *account.get("sources", ()))
    build(train, spec, texts.digest, out, noun="guide", **account)
    return guide_named.__wrapped__(str(out))


def _begin(kind: GuideKind, base: Resolved) -> dict[str, bool]:
    """Returns what a guide says of how texts begin: nothing if BOS precedes them. The network of
    FUDGE always reads BOS first."""
    return {} if kind == "future" or reads_bos(base) else {"reads_bos": False}


_LEVEL = 0.05


def doubtful_attributes(
    figures: Mapping[str, float], test: Labelled, spec: GuideSpec
) -> Iterator[tuple[str, str]]:
    """Yields each attribute whose accuracy on held-out texts is not shown to be above chance, and
    why: P(X ≥ k) > 0.05 for k right ones of n, where a guess is right as often as the most
    frequent label occurs.

    Args:
        figures: of the guide: `accuracy`, `accuracy-100` or `accuracy-ATTRIBUTE`, of 1.
    """
    for attribute, labels in test.columns(spec.attribute).items():
        names = ("accuracy", "accuracy-100", f"accuracy-{attribute}")
        accuracy = next((figures[name] for name in names if name in figures), None)
        shares = test.targets[:, [test.labels.index(label) for label in labels]]
        shares = shares[shares.any(axis=1)]
        n = len(shares)
        if accuracy is None or not n:
            continue
        chance = float(shares.mean(axis=0).max())
        if scipy.special.bdtrc(round(accuracy * n) - 1, n, chance) > _LEVEL:
            yield (
                attribute,
                f"it is right on {accuracy:.0%} of {n:,} held-out texts, and guessing the most "
                f"frequent label is on {chance:.0%}; with more texts, or more held out, the result "
                "would be clearer",
            )


def write_guide(
    folder: Path,
    *,
    kind: GuideKind,
    attribute: str,
    labels: Sequence[str],
    base: str,
    revision: str,
    settings: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """Writes `guide.safetensors` and `guide.json`.

    Args:
        kind, attribute, labels, base, revision: as of `Guide`.
        settings: what readers of the guide's kind understand.
        tensors: the weights.
    """
    from safetensors.torch import save  # its save_file leaves files that only their owner may read

    (folder / WEIGHTS).write_bytes(save(dict(tensors)))
    about = {
        "kind": kind,
        "attribute": attribute,
        "labels": list(labels),
        "base": base,
        "revision": revision,
        **settings,
    }
    with atomic_writer(folder / ABOUT) as file:
        file.write(json.dumps(about, indent=1, ensure_ascii=False) + "\n")


def passes_over(
    rows: Labelled, settings: PassSettings, spec: GuideSpec, *, every: int, warmup: float = 1 / 20
) -> Recipe:
    """Returns the recipe: the rate rises over a share of the steps and falls to a tenth.

    Args:
        every: steps between checkpoints.
        warmup: that share.
    """
    steps = max(1, round(settings.epochs * int(rows.times.sum()) / settings.batch))
    return Recipe(
        steps=steps,
        learning_rate=settings.learning_rate,
        warmup=int(steps * warmup + 1e-9),
        decay=1.0,
        seed=spec.seed,
        precision="bfloat16" if spec.precision == "bfloat16" else "float32",
        every=every,
    )
