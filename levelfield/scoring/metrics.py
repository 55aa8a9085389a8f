"""The metrics of a run: chosen for its texts; and what they lack here, said before any work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from levelfield.core.corpus import is_corpus_metric
from levelfield.core.direction import direction_of
from levelfield.core.errors import InputError, UserError, first_line
from levelfield.core.metric import (
    LacksModels,
    Metric,
    blame,
    check_metric,
    checked_signature,
    guarded,
)
from levelfield.core.options import make, required, underscored
from levelfield.core.registry import create, matching, metric_class
from levelfield.core.registry import options as options_of
from levelfield.io.fields import FIELDS
from levelfield.io.guesses import map_words, wanted_mapping
from levelfield.io.http import without_the_hub
from levelfield.io.problems import listed
from levelfield.io.samples import Census
from levelfield.scoring.joint import Criterion
from levelfield.scoring.options import Note, ScoreOptions

_IN_LINES = {
    "source": "--source-file FILE",
    "references": "--reference-file FILE",
    "control": "--control ATTR=LABEL",
}
"""What plain text can be given beside it."""


def choose_metrics(options: ScoreOptions, census: Census, note: Note) -> list[Metric]:
    """The metrics to score; of a family or task those that the samples have the fields for.

    Raises:
        UserError: a metric or an option is unknown, or the samples lack what a metric needs.
    """
    task = options.scoring_task
    named: dict[str, bool] = dict.fromkeys(
        (member for name in (task.metrics if task else ()) for member in matching(name)), False
    )
    instances: list[Metric] = []
    for choice in options.metrics:
        if not isinstance(choice, str):
            check_metric(choice)
            instances.append(choice)
            continue
        for member in matching(choice):
            named[member] = named.get(member, False) or member == choice
    common = options.execution.loading.to_dict()
    if options.model is not None:
        common["model"] = options.model
    words = underscored(options.options)
    defaults = task.defaults(words) if task else {}
    metrics = [*create(list(named), common, {**defaults, **words}), *instances]
    names = [metric.name for metric in metrics]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"metric '{twice[0]}' is given twice")
    fitting = []
    problems = []
    for metric in metrics:
        lacking = _lacking(metric, census)
        if not lacking:
            fitting.append(metric)
        elif named.get(metric.name, True) or len(metrics) == 1:
            problems.append(lacking)
        else:
            note(f"left out: {lacking}")
    if problems:
        raise InputError(problems)
    if not fitting:
        raise UserError(f"the samples lack what {', '.join(names)} need")
    return fitting


def _lacking(metric: Metric, census: Census) -> str:
    """What the samples lack for a metric and how to give it; empty if nothing."""
    if unknown := sorted(set(metric.requires) - set(census.filled)):
        raise UserError(f"metric '{metric.name}' needs '{unknown[0]}', a field no sample has")
    lacking = [f for f in sorted(metric.requires) if f != "text" and not census.filled[f]]
    if not lacking:
        return _lacking_attribute(metric, census)
    names = " and ".join(f"'{field}'" for field in lacking)
    columns = wanted_mapping(dict.fromkeys(census.extra, ""), lacking)
    mend = f"name your column with {map_words(columns)}"
    is_plain = all(file.endswith(".txt") for file in census.files) and not census.ratings
    if is_plain and _IN_LINES.keys() >= set(lacking):
        mend = f"give it with {' '.join(_IN_LINES[field] for field in lacking)}"
    return (
        f"{metric.name} needs {names} and none of the {census.n:,} samples has "
        f"{'it' if len(lacking) == 1 else 'them'}; {mend}"
        + (f"; other columns: {listed(census.extra)}" if census.extra else "")
    )


def _lacking_attribute(metric: Metric, census: Census) -> str:
    """That no control names an attribute that the metric knows, if it says which it knows."""
    attributes: Collection[str] = getattr(metric, "control_attributes", ())
    if not attributes or not census.control.keys().isdisjoint(attributes):
        return ""
    return (
        f"{metric.name} needs a control with {' or '.join(sorted(attributes))} and none of the "
        f"{census.n:,} samples has one; their controls name {listed(sorted(census.control))}"
    )


def required_fields(options: ScoreOptions) -> list[str]:
    """The fields of a sample that some of the metrics need."""
    task = options.scoring_task
    names = [*options.metrics, *(task.metrics if task else ())]
    classes: list[object] = []
    for name in names:
        members = matching(name) if isinstance(name, str) else ()
        classes += map(metric_class, members) if isinstance(name, str) else [name]
    needs = [getattr(cls, "requires", ()) for cls in classes]
    required = {field for fields in needs if isinstance(fields, Collection) for field in fields}
    return [field for field in FIELDS if field in required]


def joint_criteria(options: ScoreOptions, metrics: Sequence[Metric]) -> list[Criterion]:
    """Content and style, of which a task reports the joint mean; none where one is not scored.

    Raises:
        UserError: the metric named as content can't be one.
    """
    task = options.scoring_task
    if task is None:
        return []
    by_name = {
        m.name: m for m in metrics if not is_corpus_metric(m) and direction_of(m) == "higher"
    }
    if options.content is not None and options.content not in by_name:
        raise UserError(
            f"--content {options.content}: expected a metric of samples that is scored and of "
            f"which higher is better: {', '.join(by_name)}"
        )
    content = options.content or next((name for name in task.content if name in by_name), None)
    if content is None or task.style not in by_name:
        return []
    chosen = [by_name[content], by_name[task.style]]
    return [Criterion(m.name, getattr(m, "best", 1.0)) for m in chosen]


def ready(metrics: Sequence[Metric], attributes: Collection[str] | None) -> list[str]:
    """The signatures of metrics that have all they need.

    Args:
        attributes: that the texts are wanted to have; None for any.

    Raises:
        UserError: with all that any of them lacks, one line each.
        MetricError: a metric has no signature.
    """
    signatures: list[str] = []
    lacking: dict[str, UserError] = {}
    for metric in metrics:
        try:
            signatures.append(checked_signature(metric))
        except UserError as error:
            lacking |= dict.fromkeys(str(error).splitlines(), error)
            continue
        if isinstance(metric, LacksModels):
            with guarded(metric, "can't report what it lacks"):
                lacks = list(metric.lacking(attributes))
            if not all(isinstance(error, UserError) for error in lacks):
                raise blame(metric, f"says that it lacks {lacks!r:.80}; expected a UserError each")
            lacking |= {str(error): error for error in lacks}
    if len(lacking) == 1:
        raise next(iter(lacking.values()))
    if lacking:
        raise UserError("\n".join(lacking))
    return signatures


def works_offline(metric: Callable[..., Metric]) -> bool:
    """Whether a metric of this class, with its defaults, has all it needs on this machine; loads no
    model."""
    return not lacks_offline(metric)


def lacks_offline(metric: Callable[..., Metric], attributes: Collection[str] | None = None) -> str:
    """Returns in one line what a metric of this class, with its defaults, lacks without a network;
    empty if nothing. Loads no model.

    Args:
        attributes: as for `ready`.

    Raises:
        MetricError: the metric fails for another reason.
    """
    name = str(getattr(metric, "name", ""))
    if missing := required(options_of(metric, name=name), ()):
        return f"metric '{name}' needs --option {missing[0]}=…"
    try:
        with without_the_hub():
            with guarded(metric, "can't be created", name=name):
                instance = make(metric, {})
            ready([instance], attributes)
    except UserError as error:
        return first_line(error)
    return ""
