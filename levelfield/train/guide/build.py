"""From labelled texts to a guide's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from levelfield.models.guides import Guide, guide_named
from levelfield.models.resolve import resolve_causal
from levelfield.train.builder import Account, Trained, Workplace, build
from levelfield.train.guide.kinds import GuideSpec, guide_training, write_guide
from levelfield.train.labelled import LabelledTexts


def build_guide(
    texts: LabelledTexts, spec: GuideSpec, out: Path, **account: Unpack[Account]
) -> Guide:
    """Trains a guide, tests it on held-out texts, and leaves its folder with a card at `out`.

    Equal texts, spec and seed give equal bytes on one CPU.

    Args:
        account: further sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: a base that is no causal model, and as of `build`.
    """
    base = resolve_causal(spec.start, spec.loading)

    def train(spec: GuideSpec, place: Workplace) -> Trained:
        kind, labels = guide_training(spec.kind), texts.train.labels
        trained = kind.train(texts, spec, place)
        write_guide(
            out,
            kind=spec.kind,
            attribute=spec.attribute,
            labels=labels,
            base=base.name,
            revision=base.revision,
            settings=trained.settings,
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
        return Trained(kind.summary, facts, trained.history)

    account["sources"] = (*texts.sources, *account.get("sources", ()))
    build(train, spec, texts.digest, out, what="guide", **account)
    return guide_named.__wrapped__(str(out))
