"""`levelfield score`: from files of texts to values, a table and a page."""

from __future__ import annotations

import contextlib
import datetime
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

import click

from levelfield.cli.options import pairs
from levelfield.cli.task import TASKS, Task, print_task
from levelfield.cli.terminal import progress_bar, say
from levelfield.core.corpus import BY, CorpusMetric, GroupStates, is_corpus_metric
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric, create, matching, partitions
from levelfield.core.progress import Progress

if TYPE_CHECKING:
    from levelfield.core.sample import Sample
    from levelfield.core.scores import Scores
    from levelfield.io import Census, Source
    from levelfield.meta.joint import Criterion
    from levelfield.meta.summary import Tally
    from levelfield.report.gallery import Gallery


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--metric", "-m", "names", multiple=True, help="A metric or a family.")
@click.option("--task", type=click.Choice(sorted(TASKS)), help="Metrics that belong together.")
@click.option(
    "--content",
    metavar="METRIC",
    help="With --task: what stands for content in the joint mean of content and style.",
)
@click.option("--model", help="Hub name (NAME or NAME@REVISION), folder, or offline/minilm.")
@click.option(
    "--option",
    "-o",
    "words",
    multiple=True,
    metavar="[METRIC:]NAME=VALUE",
    help="Of all metrics that have it, or of one metric or family.",
)
@click.option("--format", "format", help="Of the files; else their suffix says it.")
@click.option(
    "--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Our field, your column."
)
@click.option("--control", multiple=True, metavar="ATTR=LABEL", help="For texts that name none.")
@click.option("--system", default="", help="For texts that name none.")
@click.option(
    "--ids",
    type=click.Choice(["given", "file"]),
    default="given",
    help="`file`: prefix ids by file.",
)
@click.option("--by", help="Group by: system, dataset, seed, control, control.ATTR, none.")
@click.option(
    "--corpus-by",
    metavar="FIELDS",
    help="What the texts behind one value of a corpus metric share, or none. "
    "[default: system,dataset,seed,control]",
)
@click.option(
    "--out", default="scores.jsonl", show_default=True, help="One value a line; - is stdout."
)
@click.option("--parts", help="The evaluators behind the values, as JSONL.")
@click.option("--report", help="A page to look at: one HTML file.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON document on stdout.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32")
@click.option("--batch-tokens", type=click.IntRange(1), help="Tokens in a batch; bounds memory.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of resampling.")
@click.option("--allow-pickle", is_flag=True, help="Take models whose weights are pickled.")
@click.option("--no-cache", is_flag=True, help="Score everything anew, keep nothing.")
def score(files: tuple[str, ...], names: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Score texts with one or more metrics, and compare the systems that wrote them.

    Reads JSONL, JSON, CSV, TSV, Parquet, plain text, CTRLEval's files and Hugging Face data sets
    (hf:NAME?split=test). Prints means with 95 % intervals by system (or by label where no system
    is named), and which differences are real.
    """
    from levelfield.io import check_targets, open_samples

    outputs = ("out", "parts", "report")
    targets = {f"--{name}": given[name] for name in outputs if given[name] is not None}
    on_stdout = [f"{name} -" for name, path in targets.items() if path == "-"]
    if len(on_stdout) + as_json > 1:
        raise UserError(f"only one of {', '.join([*on_stdout, '--json'])} can have stdout")
    check_targets(targets, files)
    task = _task(names, given)
    source = open_samples(
        files,
        format=given["format"],
        mapping=pairs("--map", given["mapping"]),
        control=pairs("--control", given["control"]),
        system=given["system"],
        ids=given["ids"],
    )
    with progress_bar("reading", None) as progress:
        census = source.check(progress=progress)
    metrics = [_counted(metric, source, census) for metric in _metrics(names, task, census, given)]
    for metric in metrics:
        _ = metric.signature  # resolves the model: whatever is wrong with it is said before work
    joined = _joined(task, metrics, given["content"])
    grouping = Grouping.choose(given["by"], census)
    corpora = [Corpora(m, given["corpus_by"]) for m in metrics if is_corpus_metric(m)]
    of_samples = [m for m in metrics if not is_corpus_metric(m)]
    run = _run(source, census, of_samples, corpora, grouping, given)
    _results(run, grouping, files, given, as_json, joined)


def _task(names: Sequence[str], given: Mapping[str, Any]) -> Task | None:
    """The task asked for, if any."""
    if not names and not given["task"]:
        raise UserError("name what to measure: --metric NAME (`levelfield metrics` lists them)")
    if not given["task"]:
        if given["content"]:
            raise UserError("--content needs --task")
        return None
    if given["model"] is not None:
        raise UserError(
            f"--task {given['task']} has models of several kinds; say whose: "
            f"--option bertscore:model={given['model']}"
        )
    return TASKS[given["task"]]


def _joined(
    task: Task | None, metrics: Sequence[Metric], wanted: str | None
) -> tuple[Task, list[Criterion]] | None:
    """What the joint mean of a task is made of: content and style; empty if one is not scored."""
    from levelfield.meta.joint import Criterion

    if task is None:
        return None
    by_name = {m.name: m for m in metrics if not is_corpus_metric(m) and m.higher_is_better}
    if wanted is not None and wanted not in by_name:
        raise UserError(
            f"--content {wanted}: expected a metric of samples that is scored and of which higher "
            f"is better: {', '.join(by_name)}"
        )
    content = wanted or next((name for name in task.content if name in by_name), None)
    if content is None or task.style not in by_name:
        return task, []
    chosen = [by_name[content], by_name[task.style]]
    return task, [Criterion(m.name, getattr(m, "best", 1.0)) for m in chosen]


def _metrics(
    names: Sequence[str], task: Task | None, census: Census, given: Mapping[str, Any]
) -> list[Metric]:
    """The metrics asked for; of a family or task those that the samples have the fields for."""
    wanted: dict[str, bool] = dict.fromkeys(
        (member for name in (task.metrics if task else ()) for member in matching(name)), False
    )
    for name in names:
        for member in matching(name):
            wanted[member] = wanted.get(member, False) or member == name
    common = {k: given[k] for k in ("device", "dtype", "batch_tokens", "allow_pickle")}
    common |= {"model": given["model"]} if given["model"] is not None else {}
    said = pairs("--option", given["words"])
    usual = task.usual(said) if task else {}
    made = create(list(wanted), common, {**usual, **said})
    kept = []
    for metric in made:
        if unknown := sorted(set(metric.requires) - set(census.filled)):
            raise UserError(f"metric '{metric.name}' needs '{unknown[0]}', a field no sample has")
        lacking = [f for f in sorted(metric.requires) if f != "text" and not census.filled[f]]
        if not lacking:
            kept.append(metric)
            continue
        example = "control.sentiment" if lacking[0] == "control" else lacking[0]
        why = (
            f"{metric.name} needs '{lacking[0]}' and none of the {census.n:,} samples has it; "
            f"name your column with --map {example}=COLUMN"
        )
        if wanted[metric.name] or len(made) == 1:
            raise UserError(why)
        say(f"note: left out: {why}")
    if not kept:
        raise UserError(f"the samples lack what {', '.join(wanted)} need")
    return kept


def _counted(metric: Metric, source: Source, census: Census) -> Metric:
    """SLOR that was given no corpus takes its unigrams from the texts that it scores."""
    from levelfield.metrics.fluency import SLOR

    if not isinstance(metric, SLOR):
        return metric
    with progress_bar("counting", census.n) as progress:
        return metric.counting(_texts(source, progress))


def _texts(samples: Iterable[Sample], progress: Progress) -> Iterator[str]:
    for sample in samples:
        yield sample.text
        progress(1)


@dataclass(frozen=True)
class Grouping:
    """What the rows of the table are.

    Attributes:
        by: `system`, `dataset`, `seed`, `control`, an attribute as `control.sentiment`, or
            `none`.
    """

    by: str

    @classmethod
    def choose(cls, by: str | None, census: Census) -> Grouping:
        """What the user says; else systems if there are any, else labels."""
        if by is None:
            return cls("system" if census.systems else "control" if census.control else "none")
        known = ["system", "dataset", "seed", "control", "none"]
        known += [f"control.{attribute}" for attribute in census.control]
        if by not in known:
            raise UserError(f"--by {by}: these samples can be grouped by {', '.join(known)}")
        return cls(by)

    @property
    def name(self) -> str:
        """One word for a table's heading."""
        return {"control": "label", "none": "group"}.get(self.by, self.by.removeprefix("control."))

    @property
    def compares(self) -> bool:
        """Whether a difference between groups says who is better."""
        return self.by == "system"

    def group(self, sample: Sample) -> str:
        """The group of a sample."""
        if self.by == "none":
            return "all texts"
        if self.by == "control":
            labels = [_label(wanted) for wanted in sample.control.values()]
            return " + ".join(labels) or "(none)"
        if self.by.startswith("control."):
            return _label(sample.control.get(self.by.removeprefix("control."), "")) or "(none)"
        value = getattr(sample, self.by)
        return "(none)" if value in ("", None) else str(value)


def _label(wanted: str | tuple[str, ...]) -> str:
    return wanted if isinstance(wanted, str) else ", ".join(wanted)


class Corpora:
    """The values of one corpus metric as texts go by, and to which row of the table each belongs.

    Args:
        by: as the user wrote it: fields with commas, or `none`; None leaves it to the metric.
    """

    def __init__(self, metric: CorpusMetric, by: str | None) -> None:
        fields = None if by is None else [f for f in by.split(",") if f != "none"]
        if unknown := sorted(set(fields or ()) - set(BY)):
            raise UserError(f"--corpus-by {unknown[0]}: expected some of {', '.join(BY)}, or none")
        self._states = GroupStates(metric, fields)
        self._rows: dict[str, set[str]] = {}

    def add(self, samples: Sequence[Sample], groups: Sequence[str]) -> None:
        for sample, group in zip(samples, groups, strict=True):
            self._rows.setdefault(self._states.name_of(sample), set()).add(group)
        self._states.merge(self._states.states(samples))

    def scores(self) -> Scores:
        return self._states.scores()

    def rows(self) -> dict[str, str]:
        """Corpus -> its row; none for one whose texts are in several rows."""
        return {name: next(iter(rows)) for name, rows in self._rows.items() if len(rows) == 1}


@dataclass
class Run:
    """What is kept of a run once its texts have gone by."""

    tally: Tally
    gallery: Gallery | None
    corpora: Sequence[Corpora]
    n: int = 0
    notes: list[str] = field(default_factory=list)


def _run(
    source: Source,
    census: Census,
    metrics: Sequence[Metric],
    corpora: Sequence[Corpora],
    grouping: Grouping,
    given: Mapping[str, Any],
) -> Run:
    """Streams the samples through the metrics; no more than a partition of texts is in memory."""
    from levelfield.io import atomic_writer
    from levelfield.meta.summary import Tally
    from levelfield.report.gallery import Gallery
    from levelfield.run.cache import keeping

    run = Run(Tally(), Gallery() if given["report"] else None, corpora)
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(atomic_writer(given["out"]))
        parts = stack.enter_context(atomic_writer(given["parts"])) if given["parts"] else None
        kept = stack.enter_context(keeping(run.notes, enabled=not given["no_cache"]))
        progress = stack.enter_context(
            progress_bar("scoring", census.n * (len(metrics) + len(corpora)))
        )
        for partition in partitions(source):
            groups = [grouping.group(sample) for sample in partition]
            for sample, group in zip(partition, groups, strict=True):
                run.tally.add(sample, group)
            scored = []
            for metric in metrics:
                scored.append(kept.score(metric, partition))
                progress(len(partition))
            for corpus in corpora:
                corpus.add(partition, groups)
                progress(len(partition))
            for scores in scored:
                run.tally.add_scores(scores)
                _write(scores, out, parts)
            if run.gallery:
                run.gallery.add(partition, groups, scored)
            run.n += len(partition)
        for corpus in corpora:
            _write(corpus.scores(), out, None)
    asked = [(metric.name, getattr(metric, "costs", None)) for metric in metrics]
    run.notes += [f"{name}: {costs}" for name, costs in asked if costs]
    return run


def _write(scores: Scores, out: TextIO, parts: TextIO | None) -> None:
    for record in scores.records():
        out.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
    if parts is not None and scores.parts is not None:
        for row in scores.parts.iter_rows(named=True):
            parts.write(json.dumps({"metric": scores.metric, **row}, ensure_ascii=False) + "\n")


def _results(
    run: Run,
    grouping: Grouping,
    files: Sequence[str],
    given: Mapping[str, Any],
    as_json: bool,
    joined: tuple[Task, list[Criterion]] | None,
) -> None:
    """Says what came out: on the terminal, as JSON, as a page."""
    from levelfield.cli.summaries import metric_document, print_summaries
    from levelfield.meta.joint import joint
    from levelfield.meta.summary import adjusted, summarise, summarise_corpus
    from levelfield.stats.resampling import Resampling

    resampling = Resampling(seed=given["seed"])
    summaries = summarise(run.tally, compare=grouping.compares, resampling=resampling)
    if joined and joined[1]:
        content, style = joined[1]
        means = joint(run.tally, content, style, compare=grouping.compares, resampling=resampling)
        summaries = adjusted([*summaries, *means])
    summaries += [summarise_corpus(corpus.scores(), corpus.rows()) for corpus in run.corpora]
    for note in run.notes:
        say(f"note: {note}")
    if given["report"] and run.gallery:
        from levelfield.report import Report, write_page

        report = Report(
            title=f"levelfield: {given['task'] or ', '.join(s.metric for s in summaries)}",
            created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
            n=run.n,
            summaries=summaries,
            samples=run.gallery.shown(),
            shown_how=run.gallery.how(),
            grouped_by=grouping.name,
            files=files,
            command=shlex.join(["levelfield", *sys.argv[1:]]),
            resampling=resampling,
        )
        write_page(given["report"], report)
    if as_json:
        document = {
            "n": run.n,
            "files": list(files),
            "by": grouping.by,
            "notes": run.notes,
            "metrics": [metric_document(summary) for summary in summaries],
        }
        click.echo(json.dumps(document, ensure_ascii=False))
    elif "-" not in (given["out"], given["parts"], given["report"]):
        if joined:
            print_task(joined[0], summaries, grouping.name)
        print_summaries(summaries, grouping.name)
    written = [w for w in (given["out"], given["parts"], given["report"]) if w and w != "-"]
    if written:
        say(f"wrote {', '.join(written)}")
