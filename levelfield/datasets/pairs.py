"""Sets with choices between texts: those of DExperts and of PPLM, from the files as released."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from statistics import fmean

from levelfield.core.sample import Control, Sample
from levelfield.datasets.loading import Parts, numbered_records, rows, wrong
from levelfield.datasets.prompts import prompts
from levelfield.io.comparisons import PairChoice

OUTCOMES = {"a": 1.0, "b": 0.0}


@dataclass(frozen=True)
class _Part:
    """The samples of a part, and the choices between them."""

    samples: Sequence[Sample]
    choices: Sequence[PairChoice]


def dexperts(parts: Parts) -> list[Sample]:
    """Returns the texts of the batches; a text in several pairs is one sample.

    `text` is the prompt and its continuation; a space joins them where the release has none and
    the continuation does not begin with a mark of punctuation.
    """
    return [s for part in _batches(parts) for s in part.samples]


def dexperts_choices(parts: Parts) -> list[PairChoice]:
    """Returns one choice an assignment and question: control, topicality and fluency.

    Of two texts asked to be non-toxic, the less toxic one is better. Raters are not named, so
    `rater` is empty; `item` is the HIT.
    """
    return [choice for part in _batches(parts) for choice in part.choices]


_BATCHES: Mapping[str, tuple[str, Control]] = {
    "neutral-positive": ("qPositive", {"sentiment": "positive"}),
    "neutral-negative": ("qNegative", {"sentiment": "negative"}),
    "positive-negative": ("qNegative", {"sentiment": "negative"}),
    "negative-positive": ("qPositive", {"sentiment": "positive"}),
    "toxicity": ("qToxic", {"toxicity": "clean"}),
}
"""Part -> the question about control, and what the systems were asked for."""
_NO_SPACE = re.compile(r"\s|[,.;:!?'’)\]}%…]|$")
_COLUMNS = ("sourcea", "senta", "sourceb", "sentb")


def _batches(parts: Parts) -> Iterator[_Part]:
    for part, files in parts.items():
        for path in files.values():
            yield _batch(part, path)


def _batch(part: str, path: Path) -> _Part:
    question, control = _BATCHES[part]
    questions = {"control": question, "topicality": "qTopic", "fluency": "qFluent"}
    fields = [f"Input.{name}" for name in ("sentprefix", *_COLUMNS)]
    answers = [f"Answer.{name}" for name in questions.values()]
    texts = _Texts(part, "dexperts-human", control)
    choices: list[PairChoice] = []
    assignments: dict[str, int] = {}
    pairs: dict[str, tuple[str, ...]] = {}
    for line, row in numbered_records(path, "HITId", "AssignmentId", *fields, *answers):
        prompt, system_a, text_a, system_b, text_b = (row[name] for name in fields)
        if not all((prompt, system_a, system_b)):
            raise wrong(path, line, "expected a prompt and two systems")
        first = assignments.setdefault(row["AssignmentId"], line)
        if first != line:
            raise wrong(path, line, f"repeats the assignment of line {first}")
        sample_a = texts.id(prompt, _joined(prompt, text_a), system_a)
        sample_b = texts.id(prompt, _joined(prompt, text_b), system_b)
        if pairs.setdefault(row["HITId"], (sample_a, sample_b)) != (sample_a, sample_b):
            raise wrong(path, line, f"HIT {row['HITId']} has other texts in an earlier row")
        for aspect, name in questions.items():
            answer = row[f"Answer.{name}"].strip().lower()
            if answer not in ("a", "b", "c", ""):
                raise wrong(path, line, f"Answer.{name}: expected a, b or c, found '{answer[:30]}'")
            if answer:
                choices.append(
                    PairChoice(
                        system_a,
                        system_b,
                        OUTCOMES.get(answer, 0.5),
                        aspect,
                        "",
                        prompt,
                        sample_a,
                        sample_b,
                        row["HITId"],
                        "equal" if answer == "c" else "",
                    )
                )
    return _Part(texts.samples, choices)


def _joined(prompt: str, continuation: str) -> str:
    return f"{prompt}{'' if _NO_SPACE.match(continuation) else ' '}{continuation}"


class _Texts:
    """The different texts of a part, numbered by system in the order in which they appear."""

    def __init__(self, part: str, dataset: str, control: Control) -> None:
        self._part, self._dataset, self._control = part, dataset, control
        self._samples: dict[tuple[str, str, str], Sample] = {}
        self._count: Counter[str] = Counter()

    def id(self, prompt: str, text: str, system: str) -> str:
        """Returns the id of a text, which is taken in if it is new."""
        key = (prompt, text, system)
        if key not in self._samples:
            self._count[system] += 1
            self._samples[key] = Sample(
                id=f"{self._part}:{system}:{self._count[system]}",
                text=text,
                prompt=prompt,
                control=self._control,
                system=system,
                dataset=self._dataset,
            )
        return self._samples[key].id

    @property
    def samples(self) -> list[Sample]:
        return list(self._samples.values())


ABLATION = ("B", "BC", "BR", "BCR")
"""The systems of PPLM's ablation: baseline, with gradients, with reranking, with both."""
_RIVALS = {"ctrl": "CTRL", "greedy": "weighted decoding", "openai": "GPT2-FT-RL"}
"""Beginning of a file's name -> the system that PPLM is compared with."""
_SENTIMENTS = ("positive", "negative")
_PROMPTS = (*prompts("pplm"), "The food")  # clickbait.csv has a prompt that the paper does not list
_START = "<|endoftext|>"
_ANSWERS = ("a", "b", "both", "neither")
_KEY = re.compile(r"(\d+)_(\d+)_(\d+)")
_RATERS = 3
_PER_RATER = 4
"""Columns of a rater: the choice, fluency of A and of B, and the name in the header."""
_RATED = 2 + _PER_RATER * _RATERS


def pplm(parts: Parts) -> list[Sample]:
    """Returns the texts of the pairs, with ratings of fluency (1–5).

    A rater rates a text once in each of its pairs: `ratings` has the mean, `extra` the single
    ratings as `fluency`. Texts are stripped of blanks around them and of the mark of a text's
    beginning. Texts that differ under one prompt number and system are several samples.
    """
    return [s for part in _ablations(parts) for s in part.samples]


def pplm_choices(parts: Parts) -> list[PairChoice]:
    """Returns one choice a row and rater: which text is more on topic, both, or neither.

    The aspect is `control`; `item` is the part and the row's `i_j_k`. A rater without a name is
    named by part and place, such as `clickbait:3`.
    """
    return [choice for part in _ablations(parts) for choice in part.choices]


@dataclass(frozen=True)
class _Row:
    """A row of PPLM's files: two texts, and their raters' answers as the file has them."""

    line: int
    number: str
    systems: tuple[str, str]
    texts: tuple[str, str]
    key: str
    cells: Sequence[str]

    @property
    def sides(self) -> Iterator[tuple[str, str]]:
        """System and text, of A and of B."""
        return zip(self.systems, self.texts, strict=True)


def _ablations(parts: Parts) -> Iterator[_Part]:
    for part, files in parts.items():
        for published, path in files.items():
            yield _compared(part, PurePosixPath(published).stem, path)


def _compared(part: str, stem: str, path: Path) -> _Part:
    rival, _, attribute = stem.rpartition("_")
    systems = ("BCR", _RIVALS[rival]) if rival else ABLATION
    kind = "sentiment" if attribute in _SENTIMENTS else "topic"
    raters, table = _rows(path, part, systems)
    shared = _prompts(table)
    samples: dict[tuple[str, str, str], Sample] = {}
    times: Counter[tuple[str, str]] = Counter()
    fluency: dict[str, dict[str, list[float]]] = {}
    choices: list[PairChoice] = []
    for row in table:
        ids = []
        for system, text in row.sides:
            key = (row.number, system, text)
            if key not in samples:
                times[row.number, system] += 1
                n = times[row.number, system]
                samples[key] = Sample(
                    id=f"{part}:{row.number}:{system}" + (f":{n}" if n > 1 else ""),
                    text=text,
                    prompt=_prompt(text) or shared[row.number],
                    control={kind: attribute},
                    system=system,
                    dataset="pplm-human",
                )
            ids.append(samples[key].id)
        for n, rater in enumerate(raters):
            cells = row.cells[2 + _PER_RATER * n :][:3]
            if answer := _answer(cells[0], path, row.line):
                choices.append(
                    PairChoice(
                        *row.systems,
                        outcome=OUTCOMES.get(answer, 0.5),
                        aspect="control",
                        rater=rater,
                        prompt=shared[row.number],
                        sample_a=ids[0],
                        sample_b=ids[1],
                        item=f"{part}:{row.key}",
                        tie="" if answer in OUTCOMES else answer,
                    )
                )
            for id, cell in zip(ids, cells[1:], strict=True):
                if cell.strip():
                    rating = _rating(cell, path, row.line)
                    fluency.setdefault(id, {}).setdefault(rater, []).append(rating)
    rated = [
        replace(
            sample,
            ratings={"fluency": {rater: fmean(grades) for rater, grades in by_rater.items()}},
            extra={"fluency": by_rater},
        )
        if (by_rater := fluency.get(sample.id))
        else sample
        for sample in samples.values()
    ]
    return _Part(rated, choices)


def _rows(path: Path, part: str, systems: Sequence[str]) -> tuple[list[str], list[_Row]]:
    """Returns the names of the raters, and the rows that have a key."""
    lines = rows(path)
    line, header = next(lines, (1, []))
    if len(header) > _RATED and not header[2].strip():
        line, header = next(lines, (line, []))  # the first row only names the files of the texts
    if len(header) <= _RATED or not header[2].strip():
        raise wrong(
            path,
            line,
            f"expected a header of two texts, three raters and a key, {_RATED + 1} columns or "
            f"more; found {len(header)}",
        )
    names = [header[5 + _PER_RATER * n].strip().capitalize() for n in range(_RATERS)]
    raters = [name or f"{part}:{n}" for n, name in enumerate(names, 1)]
    table: list[_Row] = []
    keys: dict[str, int] = {}
    for line, cells in lines:
        key = cells[len(header) - 1].strip() if len(cells) >= len(header) else ""
        if not key:
            if all(map(str.strip, cells[:2])) and len(cells) > 1:
                raise wrong(path, line, f"expected a key i_j_k in column {len(header)}")
            continue  # blank, a sum, or a note
        match = _KEY.fullmatch(key)
        if match is None:
            raise wrong(path, line, f"expected a key i_j_k in the last column, found '{key[:30]}'")
        if (first := keys.setdefault(key, line)) != line:
            raise wrong(path, line, f"repeats the key {key} of line {first}")
        number, *places = match.groups()
        first_system, second_system = (systems[int(n) % len(systems)] for n in places)
        if first_system == second_system:
            raise wrong(path, line, f"the key {key} names one system twice, {first_system}")
        texts = (_text(cells[0]), _text(cells[1]))
        table.append(_Row(line, number, (first_system, second_system), texts, key, cells))
    return raters, table


def _text(cell: str) -> str:
    return cell.strip().removeprefix(_START).strip()


def _prompts(table: Sequence[_Row]) -> Mapping[str, str]:
    """Returns number -> the prompt with which most of its texts begin; empty if none does."""
    begun: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in table:
        begun[row.number].update(prompt for text in row.texts if (prompt := _prompt(text)))
        begun[row.number][""] += 0
    return {number: counts.most_common(1)[0][0] for number, counts in begun.items()}


def _prompt(text: str) -> str:
    """Returns the longest prompt with which a text begins, or nothing."""
    return max((p for p in _PROMPTS if text.startswith(p)), key=len, default="")


def _answer(cell: str, path: Path, line: int) -> str:
    answer = cell.strip().lower()
    if answer and answer not in _ANSWERS:
        raise wrong(path, line, f"expected a, b, both or neither, found '{answer[:30]}'")
    return answer


def _rating(cell: str, path: Path, line: int) -> float:
    if cell.strip() not in ("1", "2", "3", "4", "5"):
        raise wrong(path, line, f"expected a fluency of 1 to 5, found '{cell.strip()[:30]}'")
    return float(cell)
