"""The score of a text: a metric of samples, chosen by its name."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from levelfield.core.class_file import WithheldFileError
from levelfield.core.direction import direction_of
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.options import option
from levelfield.core.registry import MetricFile, create
from levelfield.core.sample import Control, Sample
from levelfield.generation.table import controlled_by, option_words
from levelfield.metrics.control import JudgedMetric
from levelfield.models.loading import TorchOptions


@dataclass(frozen=True, kw_only=True)
class RankingOptions(TorchOptions):
    """A metric that gives each text a value.

    Raises:
        UserError: there is no such metric or option; or the metric has no value for each sample, or
            no better end.
    """

    metric: str = option("control.probability", "Metric that scores the texts.", metavar="NAME")
    metric_options: str = option(
        "judges=smollm2-linear", "Options of the metric, separated by blanks."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        with contextlib.suppress(WithheldFileError):  # a study file is being read
            self._check_metric()

    def _check_metric(self) -> None:
        """Raises what is wrong with the metric; runs its file if it is a class in one."""
        _ = self._metric

    @property
    def _metric_signature(self) -> str:
        """The signature of the metric; of a class in a file, its options and the file's digest, so
        that nothing runs for it."""
        if file := MetricFile.parse(self.metric):
            words = sorted(option_words(self.metric_options, "metric_options").items())
            return "|".join([file.cls, *(f"{name}:{word}" for name, word in words)]) + file.mark
        return self._metric.signature

    @functools.cached_property
    def _metric(self) -> Metric:
        loading = {"device": self.loading.device, "allow_pickle": self.loading.allow_pickle}
        words = option_words(self.metric_options, "metric_options")
        (metric,) = create([self.metric], loading, words)
        if metric.level != "sample":
            raise UserError(f"metric: {self.metric} has no value for a single text")
        if direction_of(metric) == "none":
            raise UserError(f"metric: neither end of {self.metric} is better")
        return metric

    def _unjudged(self, control: Control, obeyed: Collection[str] = ()) -> str:
        """Why the metric says nothing about a control; empty if it does.

        Args:
            obeyed: attributes that need no judge; `any` for all.
        """
        if not isinstance(self._metric, JudgedMetric):
            return ""
        unjudged = self._metric.unjudged(control)
        ignored = [a for a in unjudged if a not in obeyed and "any" not in obeyed]
        if not ignored and len(unjudged) < len(control):
            return ""
        if not control:
            return f"{self.metric} needs a control, and there is none"
        hint = controlled_by(*control)
        attributes = " and ".join(ignored or unjudged)
        return f"no judge of {self.metric} judges {attributes}" + (f"; {hint}" if hint else "")

    def _worth(self, samples: Sequence[Sample]) -> list[float]:
        """Returns what each text is worth, more being better; −∞ of one without a value."""
        sign = -1.0 if direction_of(self._metric) == "lower" else 1.0
        values = (sign * self._metric.score(samples).values).tolist()
        return [-math.inf if math.isnan(value) else value for value in values]
