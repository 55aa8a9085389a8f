"""`levelfield.generate`: requests in, texts under control out.

`read_requests` reads a request, the technique writes its text, and `answers` puts that into the
file as soon as it is there.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from levelfield.core.errors import LevelfieldError, UserError, first_line
from levelfield.core.limits import REQUESTS
from levelfield.core.options import keywords
from levelfield.core.partitions import PARTITION, partitions
from levelfield.core.progress import Stages, no_stages
from levelfield.core.sample import KEYWORDS, Control, Sample
from levelfield.core.signature import with_choices
from levelfield.generation.answers import AnswerFile, RunChoices, answer_file
from levelfield.generation.contract import (
    BATCH,
    Answer,
    AnsweringTechnique,
    Decoding,
    GenerationOptions,
    Request,
    Technique,
    WritingOptions,
    check_requests,
    rewrites,
)
from levelfield.generation.table import make_technique
from levelfield.generation.width import evenly
from levelfield.io.frames import Framed, FrameRows
from levelfield.io.opening import open_source
from levelfield.io.reading import PathLike
from levelfield.models.loading import TorchOptions
from levelfield.workers.executor import results
from levelfield.workers.places import working_place

if TYPE_CHECKING:
    pass


Requests = PathLike | Iterable[str | Mapping[str, Any] | os.PathLike[str] | Request]
"""A path; or a list of prompts, records, requests or paths."""


def read_requests(
    requests: Requests,
    refusal: Callable[[Control], str],
    *,
    labels: Mapping[str, str | Sequence[str]] = {},
    format: str | None = None,
    mapping: Mapping[str, str] = {},
    label_names: Mapping[str, str] = {},
    rewriting: bool = False,
    note: Callable[[str], object] = lambda _: None,
) -> list[Request]:
    """Returns the requests in their order.

    Args:
        requests: a path as a `str` or `Path`; a data frame; or a list: of strings, which are
            prompts, of records with `prompt` or `source`, and `control`, of `Request`s, or of
            `Path`s. Those without an id are "1", "2", ….
        refusal: why a control can't be answered; empty if it can.
        labels: for the attributes that a request does not name itself. Where there are several, a
            request is asked for with each, and the label follows its id: `7:positive`.
        format, mapping, label_names: as for `load_samples`.
        rewriting: whether each needs a source, not a prompt; strings and lines of plain text are
            sources then.
        note: called with what is left out, such as empty lines of plain text.

    Raises:
        InputError: with all problems there are.

    >>> read_requests(["The lake"], lambda _: "", labels={"sentiment": ["positive", "negative"]})
    ... # doctest: +NORMALIZE_WHITESPACE
    [Request(id='1:positive', prompt='The lake', control={'sentiment': 'positive'}),
     Request(id='1:negative', prompt='The lake', control={'sentiment': 'negative'})]
    """

    def refused(sample: Sample) -> str:
        if rewriting and not sample.source:
            return "the source is empty; there is nothing to rewrite"
        if sample.source and not rewriting:
            return (
                "there is a source to rewrite, and this technique continues prompts; "
                "`levelfield techniques` lists those that rewrite"
            )
        variants = list(_asked(sample, labels))
        if sample.extra.get(KEYWORDS) and not all(KEYWORDS in r.control for r in variants):
            return (
                "there are keywords outside control, where no technique reads them; write "
                '"control": {"keywords": [...]}, or give --map control.keywords=keywords'
            )
        return next(filter(None, (refusal(request.control) for request in variants)), "")

    several = [label for label in labels.values() if not isinstance(label, str)]
    if (combinations := math.prod(map(len, several))) > REQUESTS:
        raise UserError(
            f"control: {combinations:,} combinations of labels for each request; the limit is "
            f"{REQUESTS:,} requests in all"
        )
    source = open_source(
        requests, format=format, mapping=mapping, label_names=label_names, convert=_record
    ).as_requests(refused, "source" if rewriting else "prompt")
    source.check()
    for line in source.notes:
        note(line)
    all_requests = (request for sample in source for request in _asked(sample, labels))
    read = list(itertools.islice(all_requests, REQUESTS + 1))
    if len(read) > REQUESTS:
        raise UserError(f"more than {REQUESTS:,} requests; generate from parts of the file")
    return read


def _record(item: object) -> object:
    if isinstance(item, Request):
        source = {"source": item.source, "references": item.references}
        record = {"id": item.id, "prompt": item.prompt, "control": item.control}
        return record | {name: value for name, value in source.items() if value}
    return item


def _asked(sample: Sample, labels: Mapping[str, str | Sequence[str]]) -> Iterator[Request]:
    """A request for each combination of labels of the attributes that the sample does not name."""
    choices = {
        attribute: (label,) if isinstance(label, str) else tuple(label)
        for attribute, label in labels.items()
        if attribute not in sample.control
    }
    for combination in itertools.product(*choices.values()):
        control = dict(zip(choices, combination, strict=True))
        several = [label for a, label in control.items() if len(choices[a]) > 1]
        id = ":".join((sample.id, *several))
        references = sample.references if sample.source else ()
        merged = {**control, **sample.control}
        yield Request(id, sample.prompt, merged, sample.source, references)


@dataclass(frozen=True, repr=False)
class Generation(Framed):
    """The texts of a run, and what they cost.

    Attributes:
        technique: its name.
        choices: everything that the texts depend on beside the requests.
        answers: one per request, in the order of the requests.
        kept: how many of them an earlier run had written to the file.
    """

    technique: str
    choices: RunChoices
    answers: tuple[Answer, ...]
    kept: int = 0

    @cached_property
    def samples(self) -> list[Sample]:
        """The texts as `levelfield.score` takes them."""
        return [
            Sample(
                id=answer.id,
                text=answer.text,
                prompt=answer.prompt,
                source=answer.source,
                references=answer.references,
                control=answer.control,
                system=self.choices.system,
                seed=self.choices.seed,
                extra=answer.extra,
            )
            for answer in self.answers
        ]

    @property
    def cost(self) -> GenerationCost:
        """Tokens, seconds and forward passes of all texts, including kept ones."""
        cost = GenerationCost()
        for answer in self.answers:
            cost.add(answer)
        return cost

    def to_dict(self) -> dict[str, Any]:
        """Returns the document of `levelfield generate --json`."""
        cost = self.cost
        return {
            "technique": self.technique,
            "system": self.choices.system,
            "seed": self.choices.seed,
            "signature": self.choices.signature,
            "texts": len(self.answers),
            "kept": self.kept,
            "prompts_cut": sum("prompt_cut" in answer.extra for answer in self.answers),
            "tokens": cost.tokens,
            "seconds": cost.seconds,
            "tokens_per_second": cost.tokens_per_second,
            "forward_passes": cost.forward_passes,
            "backward_passes": cost.backward_passes,
            "passes_per_token": cost.passes_per_token,
        }

    def _frame(self) -> FrameRows:
        """Returns one row per text, with a column `control.ATTRIBUTE` per attribute."""
        rows = []
        for answer in self.answers:
            row = self.choices.record(answer)
            control, extra = row.pop("control"), row.pop("extra", {})
            rows.append({**row, **{f"control.{a}": label for a, label in control.items()}, **extra})
        return None, rows


@dataclass
class GenerationCost:
    """What texts cost.

    Attributes:
        tokens: generated.
        seconds: that generating them took.
        forward_passes: rows sent through any model.
        backward_passes: rows that gradients went back through.
    """

    tokens: int = 0
    seconds: float = 0.0
    forward_passes: int = 0
    backward_passes: int = 0

    def add(self, answer: Answer) -> None:
        """Adds what one more text costs."""
        self.tokens += answer.tokens
        self.seconds += answer.seconds
        self.forward_passes += answer.forward_passes
        self.backward_passes += answer.backward_passes

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second; None if no time has passed."""
        return self.tokens / self.seconds if self.seconds else None

    @property
    def passes_per_token(self) -> float | None:
        """Forward passes per token; None if there are no tokens."""
        return self.forward_passes / self.tokens if self.tokens else None


@keywords(GenerationOptions)
def generate(
    requests: Requests,
    technique: str | Technique,
    chosen: GenerationOptions | None = None,
    *,
    out: PathLike | None = None,
    force: bool = False,
    each: Callable[[Answer], object] = lambda _: None,
    stages: Stages = no_stages,
    note: Callable[[str], object] = lambda _: None,
    **words: Any,
) -> Generation:
    """Writes a text for each request with a technique of controlled generation.

    Does what `levelfield generate` does, with the command's options and defaults. A text depends on
    its request's id, prompt and control, the technique, the decoding and the seed: not on what else
    is asked for, and not on interruptions.

    Args:
        requests: a path as a `str` or `Path`; a data frame; or a list: of strings, which are
            prompts, of records with `prompt` and `control`, of `Request`s, or of `Path`s. For a
            technique that rewrites strings are sources, and records have `source`, perhaps
            `references`.
        technique: a name, as `levelfield techniques` lists them, or an instance.
        chosen: how texts are generated.
        out: a file to which each answer is written as soon as it is ready. Answers of the same
            choices that the file has are kept, so an interrupted run resumes.
        force: whether a file with texts of other choices is overwritten.
        each: called with each answer as it comes.
        stages: receives the progress.
        note: called with notes on the prompts.
        words: options of `GenerationOptions`, which override `chosen`: `seed`, `top_p`, ….

    Raises:
        LevelfieldError: a request (all faulty ones are named), an option, a model or the file is
            wrong.
        KeyboardInterrupt: the message says what is kept.

    >>> result = generate(["The lake"], "base", max_new_tokens=5)  # doctest: +SKIP
    >>> result.samples[0].text  # doctest: +SKIP
    'The lake is a 100'
    """
    chosen = GenerationOptions.of(chosen, **words)
    writer = chosen_technique(technique, chosen)
    every = read_requests(
        requests,
        writer.refusal,
        labels=chosen.control,
        format=chosen.reading.format,
        mapping=chosen.reading.mapping,
        label_names=chosen.reading.label_names,
        rewriting=rewrites(writer),
        note=note,
    )
    signature = writer.signature + with_choices("", chosen.decoding.choices)
    if caution := getattr(writer, "caution", ""):
        note(caution)
    every = every[chosen.place.part(len(every))]
    choices = RunChoices(system=chosen.system or writer.name, seed=chosen.seed, signature=signature)
    name = None if out is None else os.fspath(out)
    output = answer_file(name, choices, every, force=force) if name else contextlib.nullcontext()
    with output as file:
        answers = dict(file.kept) if file else {}
        kept = len(answers)
        left = [request for request in every if request.id not in answers]
        try:
            stage = f"generating with {writer.name}"
            with stages(stage, len(left)) as progress, _origin_named(writer):
                for answer in _answers(writer, left, chosen, note):
                    if file:
                        file.append(answer)
                    answers[answer.id] = answer
                    each(answer)
                    progress(1)
        except KeyboardInterrupt as error:
            if isinstance(file, AnswerFile):
                summary = f"{len(answers):,} of {len(every):,} texts are in {name}"
                raise KeyboardInterrupt(f"{summary}; the same command resumes") from error
            raise
        whole = tuple(answers[request.id] for request in every)
        if file:
            file.finish(whole)
    result = Generation(writer.name, choices, whole, kept)
    if cut := result.to_dict()["prompts_cut"]:
        note(f"{cut:,} prompts were too long for the model, which read only their ends")
    return result


@contextlib.contextmanager
def _origin_named(writer: Technique) -> Iterator[None]:
    """Names the file of a technique of others if the technique fails within the block."""
    try:
        yield
    except (LevelfieldError, OSError, MemoryError):
        raise
    except Exception as error:
        module = type(writer).__module__
        if module.partition(".")[0] == "levelfield":
            raise
        file = getattr(sys.modules.get(module), "__file__", None) or module
        raise LevelfieldError(
            f"technique '{writer.name}' failed: {type(error).__name__}: {first_line(error)}; it "
            f"comes from {file}, not from levelfield; --debug shows more"
        ) from error


def _write(
    writer: Technique, requests: Sequence[Request], decoding: Decoding, seed: int
) -> list[Answer]:
    return list(writer.generate(requests, decoding=decoding, seed=seed))


def _answers(
    writer: Technique,
    requests: Sequence[Request],
    chosen: GenerationOptions,
    note: Callable[[str], object],
) -> Iterator[Answer]:
    """Yields an answer a request: in their order from this process, else as batches come."""
    if not requests:
        return
    decoding, seed = chosen.decoding, chosen.seed
    device = writer.loading.device if isinstance(writer, TorchOptions) else "cpu"
    n = len(requests) * PARTITION // BATCH
    with working_place(chosen.place, [writer], n, device, note) as executor:
        if not executor.ahead:
            yield from writer.generate(requests, decoding=decoding, seed=seed)
            return
        check_requests(writer, requests)
        write = partial(_write, decoding=decoding, seed=seed)
        batches = partitions(requests, BATCH)
        if isinstance(writer, AnsweringTechnique):
            batches = writer.batches(requests)
        most = -(-len(requests) // max(1, executor.ahead // 2))  # something for every worker
        parts = (part for batch in batches for part in evenly(batch, most))
        for answers in results(executor, write, writer, parts):
            yield from answers


def chosen_technique(technique: str | Technique, chosen: WritingOptions) -> Technique:
    """Returns a technique with its options; one that is made already as it is.

    Raises:
        UserError: there is no such technique or option, or options of one that is made.
    """
    named = {"model": chosen.model, "guide": chosen.guide}
    values = {name: value for name, value in named.items() if value is not None}
    if not isinstance(technique, str):
        if values or chosen.options:
            raise UserError(
                "a technique object already has its options; set them when you create it"
            )
        return technique
    if twice := sorted(values.keys() & chosen.options.keys()):
        raise UserError(f"{twice[0]} is given twice, by itself and among the options")
    return make_technique(technique, {**values, **chosen.options})
