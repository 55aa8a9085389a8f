"""Scales of composite scores: mean and standard deviation of every component on reference text.

The scale of a component is its mean and standard deviation on text of both kinds, so that it spans
the way from text that a person wrote to text that holds together badly.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.partitions import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.metrics.composite.base import Component, CompositeMetric
from levelfield.metrics.composite.scales import MeasuredScale, StandardScale, scales_text
from levelfield.text import segmenter
from levelfield.train.cdm.perturb import shuffle, substitute
from levelfield.train.corpus import corpus_documents

SENTENCES = (2, 6)
WORDS = (20, 120)
"""Fewest and most of a passage."""

PROMPT_WORDS = (2, 6)
"""Fewest and most words of a prompt that is not a sentence."""

_SPARE = 8
"""Paragraphs drawn for each passage; some give none."""


@dataclass(frozen=True)
class Passage:
    """Consecutive sentences of a paragraph.

    Attributes:
        document: where the paragraph is from, as number in its file.
        text: the sentences, joined by one blank.
        prompt: how it begins: its first sentence, or a few words.
    """

    document: int
    text: str
    prompt: str

    @property
    def rest(self) -> str:
        """What follows the prompt and a blank."""
        return self.text[len(self.prompt) + 1 :]


@dataclass(frozen=True)
class Reference:
    """Reference text.

    Attributes:
        intact: passages as they were written, with their prompts.
        degraded: other passages, each spoilt after its prompt.
        sources: the files' names.
    """

    intact: tuple[Sample, ...]
    degraded: tuple[Sample, ...]
    sources: tuple[str, ...]

    @property
    def texts(self) -> tuple[Sample, ...]:
        """All of it."""
        return self.intact + self.degraded

    @property
    def digest(self) -> str:
        """Names the texts and their prompts."""
        texts = repr([(sample.prompt, sample.text) for sample in self.texts])
        return hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def reference_text(
    files: Sequence[str],
    *,
    passages: int,
    seed: int,
    language: str = "english",
    progress: Progress = no_progress,
) -> Reference:
    """Draws passages from a corpus, as many from each file, and degrades every second one.

    A passage has 2 to 6 sentences and 20 to 120 words. Half of the prompts are its first sentence,
    half its first 2 to 6 words. What follows the prompt is degraded in one of four ways, one after
    the other: sentences in another order; a sentence of another document in place of one; the end
    of another passage; words in another order within their sentences. Repetition is not among
    them: it makes a text likelier to a language model, not less.

    Args:
        files: texts of one kind each; documents are separated by empty lines.
        passages: in all, a multiple of twice the number of files.
        seed: of what is drawn.
        language: of the sentence segmenter.
        progress: called with the bytes read.

    Raises:
        UserError: a file can't be read, or has too few passages.
    """
    each, left = divmod(passages, len(files))
    if left or each % 2 or not each:
        raise UserError(
            f"--passages {passages}: expected a multiple of {2 * len(files)}, the same even number "
            f"from each of {len(files)} files"
        )
    intact: list[Sample] = []
    degraded: list[Sample] = []
    for number, file in enumerate(files):
        rng = np.random.default_rng([seed, number])
        drawn = drawn_passages(file, each, rng, language, progress)
        if len(drawn) < each:
            raise UserError(
                f"{file}: only {len(drawn)} passages of {SENTENCES[0]} to {SENTENCES[1]} sentences "
                f"and {WORDS[0]} to {WORDS[1]} words were found, expected {each}; give more text "
                "or a smaller --passages"
            )
        for i, passage in enumerate(drawn):
            id = f"{number}-{i}"
            if i % 2 == 0:
                intact.append(Sample(id, passage.text, prompt=passage.prompt))
            else:
                rest = _degraded(passage, drawn, i // 2, rng, language)
                degraded.append(Sample(id, f"{passage.prompt} {rest}", prompt=passage.prompt))
    return Reference(tuple(intact), tuple(degraded), tuple(Path(file).name for file in files))


def drawn_passages(
    file: str,
    most: int,
    rng: np.random.Generator,
    language: str = "english",
    progress: Progress = no_progress,
) -> list[Passage]:
    """Returns at most `most` passages of a file, as `reference_text` draws them."""
    return list(itertools.islice(_passages(file, most * _SPARE, rng, language, progress), most))


def _passages(
    file: str, paragraphs: int, rng: np.random.Generator, language: str, progress: Progress
) -> Iterator[Passage]:
    """Passages from paragraphs that are drawn alike from all of a file."""
    for document, paragraph in _drawn(file, paragraphs, rng, progress):
        sentences = segmenter.sentences(paragraph, language)
        fewest, most = SENTENCES
        if len(sentences) < fewest:
            continue
        length = int(rng.integers(fewest, min(most, len(sentences)) + 1))
        begin = int(rng.integers(len(sentences) - length + 1))
        chosen = sentences[begin : begin + length]
        text = " ".join(" ".join(chosen).split())
        words = text.split(" ")
        if not WORDS[0] <= len(words) <= WORDS[1]:
            continue
        prompt = " ".join(chosen[0].split())
        if rng.random() < 0.5:
            prompt = " ".join(words[: int(rng.integers(PROMPT_WORDS[0], PROMPT_WORDS[1] + 1))])
        yield Passage(document, text, prompt)


def _drawn(
    file: str, n: int, rng: np.random.Generator, progress: Progress
) -> list[tuple[int, str]]:
    """`n` paragraphs that are long enough for a passage, each equally likely, in random order
    (algorithm R; Vitter 1985)."""
    kept: list[tuple[int, str]] = []
    seen = 0
    for number, document in enumerate(corpus_documents([file], progress)):
        for paragraph in document.split("\n"):
            if paragraph.count(" ") + 1 < WORDS[0]:
                continue
            slot = int(rng.integers(seen + 1))
            seen += 1
            if len(kept) < n:
                kept.append((number, paragraph))
            elif slot < n:
                kept[slot] = (number, paragraph)
    return [kept[i] for i in rng.permutation(len(kept))]


def _degraded(
    passage: Passage,
    passages: Sequence[Passage],
    turn: int,
    rng: np.random.Generator,
    language: str,
) -> str:
    """Returns what follows the prompt of a passage, spoilt in the way whose turn it is; the next
    way takes over where one can't."""
    foreign = [other for other in passages if other.document != passage.document]
    other = (foreign or list(passages))[int(rng.integers(len(foreign) or len(passages)))]
    rest = passage.rest
    ways = (
        lambda: shuffle(rest, rng),
        lambda: substitute(rest, rng, other=other.rest),
        lambda: other.rest,
        lambda: _scrambled(rest, rng, language),
    )
    for i in range(turn, turn + len(ways)):
        spoilt = ways[i % len(ways)]()
        if spoilt is not None and spoilt != rest:
            return spoilt
    return rest


def _scrambled(text: str, rng: np.random.Generator, language: str) -> str:
    """Returns the words of every sentence in another order, but for the last one."""
    sentences = []
    for sentence in segmenter.sentences(text, language):
        *words, last = sentence.split()
        sentences.append(" ".join([*(words[i] for i in rng.permutation(len(words))), last]))
    return " ".join(sentences)


DIGITS = 4
"""Significant digits of a scale."""

_LABELLED = 2
"""Every second intact passage is read with labels: relevance is expensive."""

HEADER = """\
Scales of composite scores (docs/composite.md): mean and standard deviation of each component on
reference text, made by `levelfield train scales`. `component` is what determines its values, n the
number of values; `texts` names the passages, intact and degraded, by a digest."""


def measure_scales(
    metrics: Iterable[CompositeMetric], reference: Reference, *, progress: Progress = no_progress
) -> list[MeasuredScale]:
    """Returns the scale of every component of composite aspects.

    Coherence and consistency are measured on all texts; attribute relevance, which is expensive, on
    every second one of the intact ones, each with every label of the attribute in turn.

    Args:
        progress: called with the number of texts that a component has read.

    Raises:
        UserError: a component has no spread.
    """
    return [
        scale
        for metric in metrics
        for component in metric.components()
        for scale in _scales(metric, component, _texts(component, reference), progress)
    ]


def texts_read(metrics: Iterable[CompositeMetric], reference: Reference) -> int:
    """Returns the number of texts that `measure_scales` has its components read."""
    return sum(
        len(_texts(component, reference)) for metric in metrics for component in metric.components()
    )


def write_scales(scales: Sequence[MeasuredScale], reference: Reference, seed: int) -> str:
    """Returns the file of scales, the same bytes for the same scales."""
    facts = {
        "sources": list(reference.sources),
        "intact": len(reference.intact),
        "degraded": len(reference.degraded),
        "seed": seed,
        "texts": reference.digest,
    }
    return scales_text(HEADER, facts, scales)


def _texts(component: Component, reference: Reference) -> list[Sample]:
    if not component.attribute:
        return list(reference.texts)
    return [
        replace(sample, id=f"{sample.id} {label}", control={component.attribute: label})
        for sample in reference.intact[::_LABELLED]
        for label in component.labels
    ]


def _scales(
    metric: CompositeMetric, component: Component, samples: Sequence[Sample], progress: Progress
) -> Iterator[MeasuredScale]:
    part = f"{metric.name.removeprefix('composite.')}: {component.ingredient.part}"
    if component.attribute:
        part += f" of {component.attribute}"
    values = np.concatenate([*_values(component, samples, progress), np.empty(0)])
    controls = np.array([sample.control.get(component.attribute, "") for sample in samples])
    for label, key in component.keys.items():
        label_values = values[controls == label] if label else values
        name = f"{part} {label}" if label else part
        yield MeasuredScale(key, name, *_scale(label_values[~np.isnan(label_values)], name))


def _scale(values: Floats, part: str) -> tuple[int, StandardScale]:
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    if not sd > 0:
        raise UserError(f"{part}: {len(values)} values without any spread; no scale can be made")
    return len(values), StandardScale(_rounded(float(values.mean())), _rounded(sd))


def _values(
    component: Component, samples: Sequence[Sample], progress: Progress
) -> Iterator[Floats]:
    for partition in partitions(samples):
        yield component.metric.score(partition).values
        progress(len(partition))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
