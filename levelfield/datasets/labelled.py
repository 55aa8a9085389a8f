"""Labelled sets, to train and test judges on: the label is the sample's control."""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from levelfield.core.sample import Sample
from levelfield.datasets.loading import Parts, number, numbered, paths, records, wrong

SENTIMENT = {"0": "negative", "1": "positive"}
_NOT_WORD = re.compile(r"[^a-z0-9]+")
_SAME = 60


def sst2(parts: Parts) -> list[Sample]:
    """Sentence, tab, 0 or 1."""
    samples = []
    for part, path in _each(parts):
        for n, line in numbered(path):
            text, _, label = line.rpartition("\t")
            if label not in SENTIMENT:
                raise wrong(path, n, "expected a sentence, a tab and 0 or 1")
            samples.append(_labelled("sst2", part, n, text, {"sentiment": SENTIMENT[label]}))
    return samples


def yelp(parts: Parts) -> list[Sample]:
    """One sentence a line; the file's name ends with its label."""
    return [
        _labelled("yelp-sentences", f"{part}-{label}", n, line, {"sentiment": label})
        for part, files in parts.items()
        for published, path in sorted(files.items())
        for label in (SENTIMENT[published[-1]],)
        for n, line in numbered(path)
    ]


def ag_news(parts: Parts) -> list[Sample]:
    """Class number, title, description; the text is the description, as ag-news-dev has it."""
    (files,) = parts.values()
    local = {PurePosixPath(published).name: path for published, path in files.items()}
    classes = [line for _, line in numbered(local["classes.txt"])]
    samples = []
    with local["test.csv"].open(encoding="utf-8", newline="") as file:
        for n, row in enumerate(csv.reader(file), 1):
            if len(row) != 3 or row[0] not in map(str, range(1, len(classes) + 1)):
                raise wrong(local["test.csv"], n, "expected class, title, description")
            label, title, description = row
            sample = _labelled(
                "ag-news", "test", n, description, {"topic": classes[int(label) - 1]}
            )
            samples.append(replace(sample, extra={"title": title}))
    return samples


def ag_news_dev(parts: Parts) -> list[Sample]:
    """Class number and description, without the rows that are in ag-news, too."""
    test = ag_news({"test": paths("ag-news", part="test")})
    classes = ("World", "Sports", "Business", "Sci/Tech")
    beginnings = {_beginning(sample.text) for sample in test}
    return [
        _labelled("ag-news-dev", part, n, row["content"], {"topic": classes[int(row["label"]) - 1]})
        for part, path in _each(parts)
        for n, row in enumerate(records(path, "label", "content"), 1)
        if _beginning(row["content"]) not in beginnings
    ]


def _beginning(text: str) -> str:
    return _NOT_WORD.sub("", text.lower())[:_SAME]


def pt16(parts: Parts) -> list[Sample]:
    """Sentences with the mean of their raters for formality; rows without sentence are left out."""
    return [
        Sample(
            id=f"{part}:{row['SID']}",
            text=row["sentence"],
            dataset="pt16",
            ratings={"formality": {"mean": number(row["label"], path, n)}},
        )
        for part, path in _each(parts)
        for n, row in enumerate(records(path, "SID", "label", "sentence"), 2)
        if row["sentence"] != "None"
    ]


def movie_reviews(parts: Parts) -> list[Sample]:
    """One review a file, in the folders `neg` and `pos`."""
    samples = []
    for _, path in _each(parts):
        for name, text in _members(path):
            label = {"neg": "negative", "pos": "positive"}.get(PurePosixPath(name).parent.name)
            if label:
                id = PurePosixPath(name).stem
                samples.append(
                    _labelled("nltk-movie-reviews", label, id, text, {"sentiment": label})
                )
    return samples


def sentence_polarity(parts: Parts) -> list[Sample]:
    """One sentence a line, in one file a label."""
    files = {"rt-polarity.neg": "negative", "rt-polarity.pos": "positive"}
    return _sentences(parts, "nltk-sentence-polarity", "sentiment", files)


def subjectivity(parts: Parts) -> list[Sample]:
    """Sentences of plot summaries are objective, those of reviews subjective."""
    files = {"plot.tok.gt9.5000": "objective", "quote.tok.gt9.5000": "subjective"}
    return _sentences(parts, "nltk-subjectivity", "subjectivity", files)


def _sentences(
    parts: Parts, dataset: str, attribute: str, labels: Mapping[str, str]
) -> list[Sample]:
    return [
        _labelled(dataset, label, n, line.strip(), {attribute: label})
        for _, path in _each(parts)
        for name, text in _members(path)
        if (label := labels.get(PurePosixPath(name).name))
        for n, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]


def _members(path: Path) -> Iterator[tuple[str, str]]:
    """Yields name and text of the files in an archive, sorted by name."""
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith("/"):
                yield name, archive.read(name).decode("utf-8")


def _each(parts: Parts) -> Iterator[tuple[str, Path]]:
    return ((part, path) for part, files in parts.items() for path in files.values())


def _labelled(dataset: str, part: str, n: int | str, text: str, control: dict[str, str]) -> Sample:
    return Sample(id=f"{part}:{n}", text=text, dataset=dataset, control=control)
