"""Style transfer: outputs that are not rewrites, and perplexity in the requested style.

How well the style was hit is `control.average` and `control.probability` with judges of the style;
what the content metrics are is in docs/style-transfer.md.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from levelfield.core.direction import Direction
from levelfield.core.options import Options, option
from levelfield.core.sample import Sample
from levelfield.core.undefined import EMPTY_SOURCE, NO_STYLE, Undefined
from levelfield.metrics.fluency import Perplexity
from levelfield.metrics.sample_metric import ChoiceSignature, SampleMetric, SampleValue
from levelfield.models.causal_tokens import BOS, WITHOUT, Bos, reads_bos
from levelfield.models.contracts import CausalModel
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import resolve

Kind = Literal["empty", "copy of the source", "one word"]


def degenerate(text: str, source: str) -> Kind | None:
    """Returns the kind of a text that is not a rewrite of its source; None if it may be one.

    `empty`: nothing but white space. `copy of the source`: the same characters, white space and
    Unicode normalisation aside; a change of case or of punctuation is a rewrite, since some styles
    are made of it. `one word`: no blank in it, though the source has some.

    >>> degenerate("So it  goes.", "So it goes.")
    'copy of the source'
    >>> degenerate("so it goes", "So it goes.") is None
    True
    """
    ours, original = _plain(text), _plain(source)
    if not ours:
        return "empty"
    if ours == original:
        return "copy of the source"
    return "one word" if " " not in ours and " " in original else None


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True)
class StyleDegenerate(Options, ChoiceSignature, SampleMetric):
    """Share of outputs that are not rewrites: empty, a copy of the source, or one word.

    1 for such a text, else 0; the mean over samples is a share in [0, 1], lower is better. A copy
    has all of the content and a perfect score of every content metric against the source, so report
    this share with them. The part of a sample names the kind.

    Undefined: `empty source`. An empty text is defined here: 1.
    """

    name: ClassVar[str] = "style.degenerate"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "source"})
    direction: ClassVar[Direction] = "lower"

    def _choices(self) -> Mapping[str, object]:
        return {"kinds": "empty,copy,one-word", "white-space": "ignored"}

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return [self._sample_value(sample) for sample in samples]

    @staticmethod
    def _sample_value(sample: Sample) -> SampleValue | Undefined:
        if not sample.source.strip():
            return Undefined(EMPTY_SOURCE)
        kind = degenerate(sample.text, sample.source)
        parts = [(kind, 1.0, 1.0)] if kind else []
        return SampleValue(float(kind is not None), parts, cut=False)


class _Resident(Perplexity):
    """Perplexity whose model stays in memory with it: texts of all styles take turns, and a
    process keeps two models only by itself."""

    def _model(self) -> CausalModel:
        return self._loaded

    @functools.cached_property
    def _loaded(self) -> CausalModel:
        return super()._model()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_loaded"}


def _models_by_label(choice: str) -> dict[str, str]:
    """Returns label, in lower case -> model.

    Raises:
        ValueError: the choice is not written so, or names a label twice.
    """
    models: dict[str, str] = {}
    for pair in choice.split(","):
        label, equals, model = (word.strip() for word in pair.partition("="))
        if not (label and equals and model) or label.casefold() in models:
            raise ValueError(pair)
        models[label.casefold()] = model
    return models


@dataclass(frozen=True)
class StylePerplexity(LoadingOptions, ChoiceSignature, SampleMetric):
    """Perplexity of each text under the language model of its wanted style.

    `fluency.perplexity` of the text under the causal model that belongs to the label its control
    wants: fluent is what people who write in that style would write. At least 1, lower is better;
    values under two models are not comparable unless they share a vocabulary.

    Undefined: `no wanted style` where the control names no label with a model; and as for
    `fluency.perplexity`.

    Raises:
        UserError: `models` is not written so, or names a label twice.
    """

    models: str = option(
        help="Causal language model for each label, such as formal=FOLDER,informal=FOLDER: a hub "
        "name or a folder.",
        fits=_models_by_label,
        expected="LABEL=MODEL,LABEL=MODEL with every label once",
        metavar="LABEL=MODEL,…",
        positional=True,
    )
    _: KW_ONLY
    bos: Bos = option("auto", BOS)

    name: ClassVar[str] = "style.perplexity"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})
    direction: ClassVar[Direction] = "lower"

    @functools.cached_property
    def _of(self) -> Mapping[str, Perplexity]:
        """Label, in lower case -> its metric."""
        return {
            label: _Resident(model=model, bos=self.bos, loading=self.loading)
            for label, model in _models_by_label(self.models).items()
        }

    def _choices(self) -> Mapping[str, object]:
        """Returns the choices; BOS is one only of a model that does not read it."""
        choices = {}
        for label, metric in sorted(self._of.items()):
            model = resolve(metric.model, self.loading)
            choices[f"model-{label}"] = model.label
            if not reads_bos(model, self.bos):
                choices[f"bos-{label}"] = WITHOUT
        return choices

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        labels = [next(self._labels(sample), None) for sample in samples]
        outcomes: list[SampleValue | Undefined] = [Undefined(NO_STYLE)] * len(samples)
        for label, metric in self._of.items():
            rows = [i for i, label_of_sample in enumerate(labels) if label_of_sample == label]
            scores = metric.score([samples[i] for i in rows])
            for i, id, value in zip(rows, scores.ids, scores.values.tolist(), strict=True):
                reason = scores.undefined.get(id)
                outcomes[i] = (
                    Undefined(reason) if reason else SampleValue(value, (), id in scores.truncated)
                )
        return outcomes

    def _labels(self, sample: Sample) -> Iterator[str]:
        """Yields the wanted labels that have a model."""
        for value in sample.control.values():
            if isinstance(value, str) and value.casefold() in self._of:
                yield value.casefold()
