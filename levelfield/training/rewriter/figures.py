"""How good a rewriter is on pairs that it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from levelfield.core.registry import create
from levelfield.generation.seq2seq import Seq2Seq
from levelfield.training.rewriter import RewriterSpec
from levelfield.training.rewriter.pairs import RewritingPairs
from levelfield.training.rewriter.rewards import samples_of
from levelfield.training.rewriter.task import greedy_texts, mean_loss


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
    common = {"judges": spec.judges, "device": spec.loading.device}
    for name, metric in zip(names, create([*names.values()], common, {}), strict=True):
        values = metric.score(samples).values
        figures[name] = None if np.isnan(values).all() else float(np.nanmean(values))
    return {name: value if value is None else round(value, 6) for name, value in figures.items()}


def facts_of(when: str, figures: Mapping[str, float | None]) -> dict[str, str]:
    """Returns the figures as a row of the card; none where there are no figures."""
    forms = {
        "loss": "{:.4f} nats a token",
        "copies": "{:.3f} of texts equal their source",
        "bleu": "BLEU {:.1f} against the text of the pair",
        "chrf": "chrF {:.1f}",
        "style": "{:.3f} of judges find the wanted style",
    }
    words = [forms[k].format(v) for k, v in figures.items() if k in forms and v is not None]
    return {when: ", ".join(words)} if words else {}
