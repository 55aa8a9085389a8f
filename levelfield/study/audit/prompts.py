"""Do texts belong to their prompts?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set, Sized
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import scipy

from levelfield.core.arrays import Codes, Floats
from levelfield.core.continuation import letters
from levelfield.core.sample import wanted_values
from levelfield.study.audit.findings import (
    EXAMPLES,
    LEVEL,
    AuditedStudy,
    Fault,
    Faults,
    Limits,
    Severity,
    Share,
    StudyPart,
    check,
    p_of_fewer,
    p_of_more,
)
from levelfield.study.audit.texts import Text, words_of
from levelfield.study.cells import grouped

_FEW = 3


@check("wrong-request", per="system", limits=Limits(0.05, 0.01))
def wrong_request(part: StudyPart) -> Faults:
    """Texts that begin with the prompt of another request of their dataset and not their own.

    Answers were given to the wrong requests, so what they were asked for is wrong as well.
    Prompts of one word do not count, nor does a prompt that the text's own begins with. Serious
    from 5 % on; silent below 1 %, which a system may write by chance.
    """
    prompts = part.study.fact(_prompts_by_letters)
    lengths = {d: sorted(set(map(len, long)), reverse=True) for d, long in prompts.items()}
    texts = [text for text in part.texts if text.sample.prompt]
    others = {
        text.sample.id: other
        for text in texts
        if text.end is None
        and (other := _other(text, prompts[text.key.dataset], lengths[text.key.dataset]))
    }
    hits = [text for text in texts if text.sample.id in others]
    if hits:
        continued = groupby(others.get(text.sample.id) for text in texts)
        runs = (len(list(run)) for prompt, run in continued if prompt)
        predicate = (
            f"begin with the prompt of another request; they continue {len(set(others.values()))} "
            f"prompts in all, up to {max(runs):,} texts in a row the same one"
        )
        yield Share(predicate, hits, texts)


def _prompts_by_letters(study: AuditedStudy) -> Mapping[str, Mapping[str, str]]:
    """Returns dataset -> letters -> prompt, of prompts of several words."""
    prompts: dict[str, dict[str, str]] = {}
    for cell in study.cells:
        long = {letters(s.prompt): s.prompt for s in cell.samples if " " in s.prompt.strip()}
        prompts.setdefault(cell.key.dataset, {}).update(long)
    return prompts


def _other(text: Text, prompts: Mapping[str, str], lengths: Sequence[int]) -> str:
    """Returns the longest of the prompts that the text begins with; empty if none."""
    longest = lengths[0] if lengths else 0
    beginning = letters(text.sample.text[: 4 * longest + 40])
    begun = letters(text.sample.prompt)
    for length in lengths:
        prompt = prompts.get(beginning[:length])
        if prompt is not None and not begun.startswith(beginning[:length]):
            return prompt
    return ""


_PROMPTS = 8
_TIES = 3
_OFTEN = 0.2
_ROWS = 256


class _Fit(NamedTuple):
    """The number of texts of a system that best fit the request some places later.

    Attributes:
        hits: (shifts,) numbers of texts; the first counts the texts that fit their own request.
        shared: (shifts,) numbers of the texts that fit both their own request and the one that
            many places later.
        prompts: (shifts,) numbers of prompts, counted in each seed, with a text that best fits the
            request that many places later, which has another prompt.
        independent: number of prompts, counted in each seed.
        chance: share of hits by chance.
        texts: of the system, on one dataset.
    """

    hits: Floats
    shared: Floats
    prompts: Floats
    independent: int
    chance: float
    texts: Sequence[Text]


@check("wrong-request", per="dataset")
def shifted_texts(part: StudyPart) -> Faults:
    """Continuations that belong to other requests than their own.

    A text fits that prompt best with which it shares most words, or with what other systems wrote
    after it; rare words count more (tf-idf, cosine). Under a control of several words it fits those
    of which it holds most. Serious where more texts fit the request k places later than their own:
    twice as many, and of more prompts than by chance in a binomial test with p < 1e-7; requests of
    one prompt do not count. All that is measured with prompt or control is then measured with the
    wrong one. A warning where texts fit their own prompts four times less often than those of the
    median other system (p < 1e-7). Silent with fewer than 8 prompts, and where the words of texts
    have nothing to do with prompts.
    """
    texts = [text for text in part.texts if text.end is not None and text.words]
    fits = _fits_of_prompts(texts)
    for system, (fit, *seeds) in fits.items():
        others = [f.hits[0] / len(f.texts) for name, (f, *_) in fits.items() if name != system]
        usual = float(np.median(others)) if others else 0.0
        faults = [*(_shift(fit) or _strangers(fit, usual))]
        for seed_fit in seeds if not faults and len(seeds) > 1 else ():
            seed = seed_fit.texts[0].key.seed
            in_seed = _shift(seed_fit) or _strangers(seed_fit, usual)
            faults += [fault._replace(seed=seed) for fault in in_seed]
        yield from faults
    for fit in _fits_of_words(texts):
        yield from _shift(fit)


def _shift(fit: _Fit) -> list[Fault]:
    total, n = len(fit.texts), len(fit.hits)
    if n < 2:
        return []
    apart = fit.hits - fit.shared
    k = int(apart[1:].argmax()) + 1
    unshifted, later = float(fit.hits[0] - fit.shared[k]), float(apart[k])
    # one of the m texts of a prompt fits by chance m times as often at most
    chance = min(1.0, fit.chance * total / fit.independent)
    if later < 2 * unshifted or p_of_more(int(fit.prompts[k]), fit.independent, chance) >= LEVEL:
        return []
    where = f"{k} places later" if 2 * k <= n else f"{n - k} places earlier"
    sentence = (
        f"{later:.0f} of {total:,} texts best fit the request {where}, and {unshifted:.0f} their "
        "own, as if continuations had been shifted"
    )
    return [_fault(fit, "serious", sentence, round(later))]


def _strangers(fit: _Fit, usual: float) -> list[Fault]:
    total, fitting = len(fit.texts), float(fit.hits[0])
    counted = int(fitting * fit.independent / total) + 1
    if usual < _OFTEN or 4 * fitting > usual * total:
        return []
    if p_of_fewer(counted, fit.independent, usual / 2) >= LEVEL:
        return []
    sentence = (
        f"{fitting:.0f} of {total:,} texts fit their own prompt better than other prompts; "
        f"of the texts of other systems, {100 * usual:.0f} % do"
    )
    return [_fault(fit, "warning", sentence, total - round(fitting))]


def _fault(fit: _Fit, severity: Severity, sentence: str, n: int) -> Fault:
    system = fit.texts[0].key.system
    return Fault(severity, sentence, n, len(fit.texts), fit.texts[:EXAMPLES], system)


def _fits_of_prompts(texts: Sequence[Text]) -> Mapping[str, Sequence[_Fit]]:
    """Returns system -> its fit, and those of its seeds."""
    prompts = {p: n for n, p in enumerate(dict.fromkeys(text.sample.prompt for text in texts))}
    if len(prompts) < _PROMPTS:
        return {}
    X = _tf_idf([*(text.words for text in texts), *map(words_of, prompts)])
    X, P = X[: len(texts)], X[len(texts) :]
    targets = np.array([prompts[text.sample.prompt] for text in texts])
    fits = {}
    for system, rows in grouped(range(len(texts)), lambda n: texts[n].key.system).items():
        others = np.delete(np.arange(len(texts)), rows)
        shape = (len(prompts), len(others))
        sums = scipy.sparse.csr_array(
            (np.ones(len(others)), (targets[others], np.arange(len(others)))), shape
        )
        best = _best(X[rows], _normed(P + sums @ X[others]), np.ones(len(prompts)))
        places = dict(zip(rows, range(len(rows)), strict=True))
        seeds = grouped(rows, lambda n: texts[n].key.seed).values()
        fits[system] = [
            _fit([texts[n] for n in part], [best[places[n]] for n in part], targets[part], prompts)
            for part in (rows, *seeds)
        ]
    return fits


def _fits_of_words(texts: Sequence[Text]) -> Iterator[_Fit]:
    """Yields the fits of systems under controls that want several words."""
    keywords = {id(text): frozenset(_wanted_words(text)) for text in texts}
    values = {words: n for n, words in enumerate(dict.fromkeys(keywords.values())) if words}
    if len(values) < 2:
        return
    vocabulary = {w: n for n, w in enumerate(dict.fromkeys(chain.from_iterable(values)))}
    Y = _holds(list(values), vocabulary)
    for system_texts in grouped(texts, lambda text: text.key.system).values():
        system_texts = [text for text in system_texts if keywords[id(text)]]
        if system_texts:
            held = [set(text.words) & vocabulary.keys() for text in system_texts]
            best = _best(_holds(held, vocabulary), Y, np.array([len(words) for words in values]))
            targets = np.array([values[keywords[id(text)]] for text in system_texts])
            yield _fit(system_texts, best, targets, values, len(system_texts))


def _wanted_words(text: Text) -> Iterator[str]:
    for value in text.sample.control.values():
        if isinstance(value, tuple):
            yield from words_of(" ".join(wanted_values(value)))


def _holds(sets: Sequence[Set[str]], vocabulary: Mapping[str, int]) -> scipy.sparse.csr_array:
    """Returns (sets, words): 1 where a set has the word."""
    columns = [vocabulary[word] for words in sets for word in words]
    ends = np.cumsum([0, *map(len, sets)])
    return scipy.sparse.csr_array(
        (np.ones(len(columns)), columns, ends), (len(sets), len(vocabulary))
    )


def _best(
    X: scipy.sparse.csr_array, Y: scipy.sparse.csr_array, size: Floats | Codes
) -> list[list[int]]:
    """Returns, for each row of X, the rows of Y with the largest product ÷ size; none if many tie.

    Similarities of all texts and prompts would not fit into memory, so it takes rows in blocks.
    """
    best: list[list[int]] = []
    for start in range(0, X.shape[0], _ROWS):
        S = (X[start : start + _ROWS] @ Y.T).toarray() / size
        top = S.max(axis=1, keepdims=True)
        for row in (top == S) & (top > 0):
            fitting = np.flatnonzero(row).tolist()
            best.append(fitting if len(fitting) <= _TIES else [])
    return best


def _fit(
    texts: Sequence[Text],
    best: Sequence[Sequence[int]],
    targets: Codes,
    prompts: Sized,
    independent: int | None = None,
) -> _Fit:
    """Returns the fit of texts.

    best: of each text, the prompts that it fits best; targets: (texts,) the own prompts.
    """
    if independent is None:
        independent = len({(text.key.seed, text.sample.prompt) for text in texts})
    cells = grouped(range(len(texts)), lambda n: texts[n].key)
    hits, shared, others = np.zeros((3, max(map(len, cells.values()))))
    for rows in cells.values():
        fitting: set[tuple[int, int]] = set()
        places: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(int(targets[row]), []).append(place)
        for here, row in enumerate(rows):
            there = best[row]
            for place in chain.from_iterable(places.get(g, []) for g in there):
                hits[(place - here) % len(rows)] += 1 / len(there)
                if targets[rows[place]] != targets[row]:
                    fitting.add((int(targets[row]), (place - here) % len(rows)))
            for place in places[int(targets[row])] if targets[row] in there else ():
                shared[(place - here) % len(rows)] += 1 / len(there)
        for _, k in fitting:
            others[k] += 1
    return _Fit(hits, shared, others, independent, 1 / len(prompts), texts)


def _tf_idf(documents: Sequence[Sequence[str]]) -> scipy.sparse.csr_array:
    """Returns (documents, words), each row of length 1; a word counts once a document."""
    vocabulary: dict[str, int] = {}
    columns = [[vocabulary.setdefault(w, len(vocabulary)) for w in set(d)] for d in documents]
    df = np.bincount(list(chain.from_iterable(columns)), minlength=len(vocabulary))
    ends = np.cumsum([0, *map(len, columns)])
    flat = np.fromiter(chain.from_iterable(columns), int, ends[-1])
    weights = np.log((1 + len(documents)) / (1 + df))
    shape = (len(documents), len(vocabulary))
    return _normed(scipy.sparse.csr_array((weights[flat], flat, ends), shape))


def _normed(X: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    length = np.sqrt(X.multiply(X).sum(axis=1))
    scale = 1 / np.where(length > 0, length, 1)
    return X.multiply(scale[:, None]).tocsr()


@check("prompt-not-continued", per="system", limits=Limits(0.1, 0.01))
def prompt_not_continued(part: StudyPart) -> Faults:
    """Texts that do not begin with their prompt.

    White space, quotes and case do not count. Serious from 10 % on, where other systems continue
    theirs by construction: texts are then not comparable. Silent below 1 % and without prompts.
    """
    texts = [text for text in part.texts if text.sample.prompt]
    hits = [text for text in texts if text.end is None]
    late = sum(letters(text.sample.prompt) in letters(text.sample.text) for text in hits)
    further = f"; {late:,} of them contain it further in" if late else ""
    yield Share(f"do not begin with their prompt{further}", hits, texts)


@check("prompt-repeated", per="system", limits=Limits(0.05, 0.01))
def prompt_repeated(part: StudyPart) -> Faults:
    """Texts that repeat their prompt, or continue with the prompt of another request.

    Looked for directly after the prompt, and a prompt of 2 words or more at the end, without
    blanks, case and punctuation; prompts of others count from 3 words on. Serious from 5 % on: what
    is measured of such a text is measured of its prompt. Silent below 1 % and 3 texts, which a
    system may write by chance.
    """
    prompts = part.study.fact(_prompts_of_words)
    lengths = {dataset: set(map(len, long)) for dataset, long in prompts.items()}
    texts = [t for t in part.texts if t.end is not None and t.sample.prompt.strip()]
    twice, others = [], []
    for text in texts:
        prompt, dataset = words_of(text.sample.prompt), text.key.dataset
        n = len(prompt)
        ends = n > 1 and prompt == text.words[-n:]
        if prompt and (ends or prompt == text.words[:n]):
            twice.append(text)
        elif any(tuple(text.words[:k]) in prompts[dataset] for k in lengths[dataset]):
            others.append(text)
    for predicate, hits in (
        ("repeat their prompt", twice),
        ("continue with the prompt of another request", others),
    ):
        if len(hits) >= _FEW:
            yield Share(predicate, hits, texts)


def _prompts_of_words(study: AuditedStudy) -> Mapping[str, Set[tuple[str, ...]]]:
    """Returns dataset -> the words of its prompts, of those of 3 words or more."""
    prompts: dict[str, set[tuple[str, ...]]] = {}
    for cell in study.cells:
        words = (tuple(words_of(prompt)) for prompt in {s.prompt for s in cell.samples})
        prompts.setdefault(cell.key.dataset, set()).update(w for w in words if len(w) > 2)
    return prompts
