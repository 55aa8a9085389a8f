"""What a metric is: the contract, and scoring that holds a metric to it."""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from levelfield.core.direction import Direction
from levelfield.core.errors import LevelfieldError, UserError, first_line, missing_package_of_models
from levelfield.core.progress import LIMIT, Progress, TimeIsUp, no_progress, timed
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores

Level = Literal["sample", "corpus"]


def fields_read(metric: Metric) -> frozenset[str]:
    """Returns the fields of a sample that a value depends on: `requires` and `reads`."""
    optional: frozenset[str] = getattr(metric, "reads", frozenset())
    return metric.requires | optional


def part_names(metric: Metric) -> tuple[str, ...]:
    """Returns the names of the parts of every value of a metric.

    There are none where the parts differ from text to text, or are not named.
    """
    names: tuple[str, ...] = getattr(metric, "part_names", ())
    return names


def reading_order(metrics: Sequence[Metric]) -> list[int]:
    """Returns the places of metrics in the order in which they are scored: first those that read
    most of a text."""
    return sorted(range(len(metrics)), key=lambda i: not getattr(metrics[i], "goes_first", False))


class MetricError(LevelfieldError):
    """A metric failed or broke its contract; it says whether the metric is ours."""


class Metric(Protocol):
    """Samples in, scores out.

    A metric is made of plain arguments, so that it can be pickled and sent to where the samples
    are; it opens files and models at the first `score`. The value of a sample depends on that
    sample alone. `signature` names every choice that could change a value; asking for it may
    resolve the model (its revision is such a choice) but loads no weights.

    A metric says which end of its values is better: `direction`, one of `higher`, `lower` and
    `none`, or the boolean `higher_is_better` in its place (`direction_of`).

    A metric may also have:
        reads: fields of a sample that it can do without; a value depends on them where they are.
        best: what a perfect value is, by which joint means divide; 1 without it.
        control_attributes: names of attributes; the metric measures samples whose control names
            one of them.
        part_names: of the parts that every value is made of; a run reports the means of each.
        goes_first: whether its model reads each text together with more, such as words after it. A
            run scores such metrics before others, which then find the text read.
        cacheable: False if the cache must not keep its values; True without it.
        extra: of levelfield that installs what it computes with, of a metric without models.
        model_names: of the models that it reads, where no options `model`, `encoder`, `expert` or
            `amateur` name them.
        languages: reader -> ISO 639-1 codes of the languages that it reads, of what the metric
            reads texts with besides its models: a segmenter, rules, a lexicon, scales. A run says
            which texts are in others; what isn't named reads any.
        costs: what its values have cost so far, as text for a note; None if nothing.
        counting: a method `counting(texts)`, as `CountsTexts` has it.
        lacking: a method `lacking(attributes)`, as `LacksModels` has it.
    """

    @property
    def name(self) -> str: ...
    @property
    def level(self) -> Level: ...
    @property
    def requires(self) -> frozenset[str]: ...
    @property
    def signature(self) -> str: ...
    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores: ...


@runtime_checkable
class LacksModels(Protocol):
    """A metric whose signature can be asked for without all models that it may need."""

    def lacking(self, attributes: Collection[str] | None) -> Sequence[UserError]:
        """Returns what the metric lacks to score texts with these wanted attributes; None for all.

        A run asks before it starts.
        """


@runtime_checkable
class CountsTexts(Protocol):
    """A metric that takes something from all texts of a run before it scores the first one."""

    def counting(self, texts: Iterable[str]) -> Metric:
        """Returns the metric that scores these texts; itself if it needs nothing from them."""


@contextlib.contextmanager
def guarded(metric: object, doing: str, *, name: str = "") -> Iterator[None]:
    """Runs the code of a metric: whatever it raises becomes one line that names the metric and says
    whose it is. Only Ctrl-C ends a run there, not `sys.exit`.

    Args:
        metric: a metric, or the class or function that makes one.
        doing: continues "metric 'NAME' …".
        name: of a metric that can't say it itself.

    Raises:
        MetricError: whatever the metric raises that is not an error on purpose, or that it takes
            longer than `time_limit` allows.
    """
    try:
        if LIMIT.get() is None:
            yield
        else:
            with timed():
                yield
    except (LevelfieldError, MemoryError, KeyboardInterrupt, GeneratorExit):
        raise
    except TimeIsUp as over:
        raise MetricError(
            f"metric '{_name_of(metric, name)}' {doing}: {over}, its time limit"
        ) from None
    except BaseException as error:  # also `sys.exit`, and what fails in a library of Rust
        if isinstance(error, OSError) and error.filename is not None and is_ours(metric):
            raise  # a path that the user gave
        if lack := missing_package_of_models(error):
            raise lack from error
        failure = f"{type(error).__name__}: {first_line(error)}"
        raise blame(metric, f"{doing}: {failure}", name=name) from error


def is_ours(metric: object) -> bool:
    """Returns whether a metric, or what makes one, comes with this package."""
    return str(_maker(metric).__module__).partition(".")[0] == "levelfield"


def _maker(metric: object) -> Any:
    """Returns the class or function that makes a metric."""
    return metric if inspect.isroutine(metric) or isinstance(metric, type) else type(metric)


def blame(metric: object, fault: str, *, name: str = "") -> MetricError:
    """Returns the error for a metric with a fault, and the file that the metric comes from."""
    maker = _maker(metric)
    name = _name_of(metric, name)
    if is_ours(metric):
        return MetricError(f"this is a bug in levelfield: metric '{name}' {fault}")
    module = str(maker.__module__)
    file = getattr(sys.modules.get(module), "__file__", None) or module
    where = f"{file}:{getattr(maker, '__qualname__', '?')}"
    return MetricError(
        f"metric '{name}' {fault[:300]}; it comes from {where}, not from levelfield; --debug shows "
        "more"
    )


def _name_of(metric: object, name: str) -> str:
    with contextlib.suppress(Exception):
        name = name or str(getattr(metric, "name", None) or "?")
    return name


def check_metric(metric: Metric, *, name: str = "") -> None:
    """Nothing, if the metric says of itself what it must; no model is resolved.

    Args:
        name: of a metric that may not have one.

    Raises:
        MetricError: it lacks something, or says something that can't be.
    """
    for attribute, (fits, expected) in _CLAIMS.items():
        with guarded(metric, f"can't report its {attribute}", name=name):
            if attribute in _optional(metric) and not hasattr(metric, attribute):
                continue
            value = getattr(metric, attribute)
            fitting = fits(value)
        if not fitting:
            claim = f"the {attribute} {value!r:.80}"
            raise blame(metric, f"has {claim}; expected {expected}", name=name)


def checked_signature(metric: Metric) -> str:
    """Returns the signature; this resolves the model, so a wrong name is found before any work.

    Raises:
        MetricError: it has none.
        LevelfieldError: what is wrong with the model.
    """
    with guarded(metric, "can't report its signature"):
        signature: object = metric.signature
    if isinstance(signature, str) and signature.strip():
        return signature
    raise blame(metric, f"has the signature {signature!r:.80}; expected a string that is not empty")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _are_names(value: object) -> bool:
    return isinstance(value, Set) and all(isinstance(field, str) for field in value)


def _are_listed_names(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def _are_fields(value: object) -> bool:
    return isinstance(value, Set) and value <= {field.name for field in fields(Sample)}


def _is_unit(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value != 0


_CLAIMS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (_is_name, "a string of one line that is not empty"),
    "level": (lambda value: value in get_args(Level), f"one of {', '.join(get_args(Level))}"),
    "requires": (_are_names, "a set of names of fields"),
    "direction": (
        lambda value: value in get_args(Direction),
        f"one of {', '.join(get_args(Direction))}",
    ),
    "higher_is_better": (lambda value: isinstance(value, bool), "True or False"),
    "score": (callable, "a method"),
    "reads": (_are_fields, "a set of names of fields of a sample"),
    "best": (_is_unit, "a number that is not 0"),
    "control_attributes": (_are_names, "a set of names"),
    "part_names": (_are_listed_names, "a tuple of names"),
}
"""What a metric says of itself -> whether it can be that, and what it must be."""

_OPTIONAL = ("reads", "best", "control_attributes", "part_names")


def _optional(metric: object) -> tuple[str, ...]:
    """Returns what a metric need not say: one of its two words on its direction among them."""
    old = hasattr(metric, "higher_is_better")
    return (*_OPTIONAL, "direction" if old else "higher_is_better")


def score_checked(metric: Metric, samples: Sequence[Sample]) -> Scores:
    """`metric.score`, held to its contract: a value or a reason for each sample, and no stray
    exception.

    Raises:
        MetricError: names the metric and what it did.
    """
    on = f"failed on one of the samples '{samples[0].id}' to '{samples[-1].id}'"
    with guarded(metric, on):
        scores = metric.score(samples)
        name, signature = metric.name, metric.signature
    if not isinstance(scores, Scores):
        raise blame(metric, f"gave a value of type {type(scores).__name__}, expected Scores")
    if tuple(scores.ids) != tuple(sample.id for sample in samples):
        raise blame(
            metric,
            f"gave {len(scores.ids)} values for {len(samples)} samples, or in another order",
        )
    if (scores.metric, scores.signature) != (name, signature):
        raise blame(metric, "gave scores with a name or signature other than its own")
    return scores
