"""Requests from files or from memory: read whole and checked before a model is loaded."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from levelfield.core.sample import Control, Sample
from levelfield.generation.contract import Request
from levelfield.io.opening import open_source
from levelfield.io.reading import PathLike

Requests = PathLike | Iterable[str | Mapping[str, Any] | os.PathLike[str] | Request]
"""A path; or a list of prompts, records, requests or paths."""


def read_requests(
    requests: Requests,
    refusal: Callable[[Control], str],
    *,
    labels: Mapping[str, str | Sequence[str]] = {},
    format: str | None = None,
    mapping: Mapping[str, str] = {},
    rewriting: bool = False,
) -> list[Request]:
    """The requests in their order.

    Args:
        requests: a path as a `str` or `Path`; or a list: of strings, which are prompts, of records
            with `prompt` or `source`, and `control`, of `Request`s, or of `Path`s. Those without an
            id are "1", "2", ….
        refusal: why a control can't be answered; empty if it can.
        labels: for the attributes that a request does not name itself. Where there are several, a
            request is asked for with each, and the label goes behind its id: `7:positive`.
        format, mapping: as for `load_samples`.
        rewriting: whether each needs a source, not a prompt; strings and lines of plain text are
            sources then.

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
        return next(filter(None, (refusal(one.control) for one in _asked(sample, labels))), "")

    records = requests if isinstance(requests, str | os.PathLike) else map(_record, requests)
    source = open_source(records, format=format, mapping=mapping).as_requests(
        refused, "source" if rewriting else "prompt"
    )
    source.check()
    return [request for sample in source for request in _asked(sample, labels)]


def _record(item: str | Mapping[str, Any] | os.PathLike[str] | Request) -> Any:
    if isinstance(item, Request):
        own = {"source": item.source, "references": item.references}
        record = {"id": item.id, "prompt": item.prompt, "control": item.control}
        return record | {name: value for name, value in own.items() if value}
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
        wanted = {**control, **sample.control}
        yield Request(id, sample.prompt, wanted, sample.source, references)
