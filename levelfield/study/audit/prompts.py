"""Do texts belong to their prompts?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set, Sized
from dataclasses import replace
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from levelfield.core.arrays import Codes, Floats
from levelfield.core.continuation import letters
from levelfield.core.sample import wanted_values
from levelfield.study.audit.findings import (
    EXAMPLES,
    LEVEL,
    AuditedStudy,
    Finding,
    Limits,
    Severity,
    grouped,
    p_of_fewer,
    p_of_more,
    share_found,
    shown,
)
from levelfield.study.audit.texts import Text, words_of

_FEW = 3


def prompt_not_continued(study: AuditedStudy) -> list[Finding]:
    """Texts that do not begin with their prompt.

    White space, quotes and case do not count. Serious from 10 % on, where other systems continue
    theirs by construction: texts are then not comparable. Silent below 1 % and without prompts.
    """
    findings = []
    for cells in study.systems.values():
        texts = [text for text in study.of_system(cells) if text.sample.prompt]
        hits = [text for text in texts if text.end is None]
        late = sum(_comes_late(text) for text in hits)
        further = f"; {late:,} of them have it further in" if late else ""
        what = f"do not begin with their prompt{further}"
        findings += share_found("prompt-not-continued", Limits(0.1, 0.01), what, hits, texts)
    return findings


def _comes_late(text: Text) -> bool:
    return letters(text.sample.prompt) in letters(text.sample.text)


def wrong_request(study: AuditedStudy) -> list[Finding]:
    """Texts that begin with the prompt of another request of their dataset and not their own.

    Answers were given to the wrong requests, so what they were asked for is wrong as well.
    Prompts of one word are no evidence, nor is a prompt that the text's own begins with. Serious
    from 5 % on; silent below 1 %, which a system may write by chance.
    """
    prompts: dict[str, dict[str, str]] = {}
    for cell in study.cells:
        known = prompts.setdefault(cell.key.dataset, {})
        known.update({letters(s.prompt): s.prompt for s in cell.samples if " " in s.prompt.strip()})
    lengths = {d: sorted({len(p) for p in known}, reverse=True) for d, known in prompts.items()}
    findings = []
    for cells in study.systems.values():
        texts = [text for text in study.of_system(cells) if text.sample.prompt]
        others: dict[str, str] = {}
        for text in (text for text in texts if text.end is None):
            dataset = text.key.dataset
            found = _other(text, prompts[dataset], lengths[dataset])
            if found:
                others[text.sample.id] = found
        hits = [text for text in texts if text.sample.id in others]
        if not hits:
            continue
        continued = groupby(others.get(text.sample.id) for text in texts)
        runs = (len(list(run)) for prompt, run in continued if prompt)
        what = (
            f"begin with the prompt of another request; they continue {len(set(others.values()))} "
            f"prompts in all, up to {max(runs):,} texts in a row the same one"
        )
        findings += share_found("wrong-request", Limits(0.05, 0.01), what, hits, texts)
    return findings


def _other(text: Text, prompts: Mapping[str, str], lengths: Sequence[int]) -> str:
    """The longest of the prompts that the text begins with; empty if none."""
    longest = lengths[0] if lengths else 0
    beginning = letters(text.sample.text[: 4 * longest + 40])
    own = letters(text.sample.prompt)
    for length in lengths:
        prompt = prompts.get(beginning[:length])
        if prompt is not None and not own.startswith(beginning[:length]):
            return prompt
    return ""


def prompt_repeated(study: AuditedStudy) -> list[Finding]:
    """Texts that say their prompt twice, or go on with the prompt of another request.

    Looked for directly after the prompt, and a prompt of 2 words or more at the end, without
    blanks, case and punctuation; prompts of others count from 3 words on. Serious from 5 % on: what
    is measured of such a text is measured of its prompt. Silent below 1 % and 3 texts, which a
    system may write by chance.
    """
    prompts: dict[str, dict[tuple[str, ...], str]] = {}
    for cell in study.cells:
        known = prompts.setdefault(cell.key.dataset, {})
        for prompt in dict.fromkeys(sample.prompt for sample in cell.samples):
            known[tuple(words_of(prompt))] = prompt
    lengths = {d: {len(words) for words in known if len(words) > 2} for d, known in prompts.items()}
    findings = []
    for cells in study.systems.values():
        texts = [t for t in study.of_system(cells) if t.end is not None and t.sample.prompt.strip()]
        twice, others = [], []
        for text in texts:
            own = words_of(text.sample.prompt)
            n = len(own)
            if own and (own == text.words[:n] or (n > 1 and own == text.words[-n:])):
                twice.append(text)
            elif any(
                tuple(text.words[:n]) in prompts[text.key.dataset]
                for n in lengths[text.key.dataset]
            ):
                others.append(text)
        for what, hits in (
            ("say their prompt twice", twice),
            ("go on with the prompt of another request", others),
        ):
            if len(hits) >= _FEW:
                findings += share_found("prompt-repeated", Limits(0.05, 0.01), what, hits, texts)
    return findings


_PROMPTS = 8
_TIES = 3
_OFTEN = 0.2
_ROWS = 256


class _Fit(NamedTuple):
    """How many texts of a system fit best what the request some places later asked for.

    Attributes:
        hits: (shifts,) numbers of texts; the first is that of texts which fit their own request.
        shared: (shifts,) numbers of those that fit their own, which the request so many places
            later has too.
        prompts: (shifts,) numbers of prompts, counted in each seed, of which any text fits best
            what the request so many places later asked for, which is another prompt.
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


def shifted_texts(study: AuditedStudy) -> list[Finding]:
    """Continuations that belong to other requests than those they stand with.

    A text fits that prompt best with which it shares most words, or with what other systems wrote
    after it; rare words count more (tf-idf, cosine). Under a control of several words it fits those
    of which it holds most. Serious where more texts fit the request k places later than their own:
    twice as many, and of more prompts than by chance in a binomial test with p < 1e-7; requests of
    one prompt do not count. All that is measured with prompt or control is then measured with the
    wrong one. A warning where texts fit their own prompts four times less often than those of the
    median other system (p < 1e-7). Silent with fewer than 8 prompts, and where the words of texts
    have nothing to do with prompts.
    """
    findings = []
    for cells in grouped(study.cells, lambda cell: (cell.key.control, cell.key.dataset)).values():
        texts = [text for text in study.of_system(cells) if text.end is not None and text.words]
        fits = _fits_of_prompts(texts)
        for system, (fit, *seeds) in fits.items():
            others = [f.hits[0] / len(f.texts) for name, (f, *_) in fits.items() if name != system]
            usual = float(np.median(others)) if others else 0.0
            told = _shift(fit) or _strangers(fit, usual)
            for of_seed in seeds if not told and len(seeds) > 1 else ():
                seed = of_seed.texts[0].key.seed
                in_seed = _shift(of_seed) or _strangers(of_seed, usual)
                told += [replace(finding, seed=seed) for finding in in_seed]
            findings += told
        for fit in _fits_of_words(texts):
            findings += _shift(fit)
    return findings


def _shift(fit: _Fit) -> list[Finding]:
    of, n = len(fit.texts), len(fit.hits)
    if n < 2:
        return []
    apart = fit.hits - fit.shared
    k = int(apart[1:].argmax()) + 1
    own, later = float(fit.hits[0] - fit.shared[k]), float(apart[k])
    # one of the m texts of a prompt fits by chance m times as often at most
    chance = min(1.0, fit.chance * of / fit.independent)
    if later < 2 * own or p_of_more(int(fit.prompts[k]), fit.independent, chance) >= LEVEL:
        return []
    where = f"{k} places later" if 2 * k <= n else f"{n - k} places earlier"
    what = (
        f"{later:.0f} of {of:,} texts fit best the request {where}, and {own:.0f} their own, "
        "as if continuations had been shifted"
    )
    return [_finding(fit, "serious", what, round(later))]


def _strangers(fit: _Fit, usual: float) -> list[Finding]:
    of, own = len(fit.texts), float(fit.hits[0])
    counted = int(own * fit.independent / of) + 1
    if usual < _OFTEN or 4 * own > usual * of:
        return []
    if p_of_fewer(counted, fit.independent, usual / 2) >= LEVEL:
        return []
    what = (
        f"{own:.0f} of {of:,} texts fit their own prompt better than the others, "
        f"where {100 * usual:.0f} % of those of other systems do"
    )
    return [_finding(fit, "warning", what, of - round(own))]


def _finding(fit: _Fit, severity: Severity, what: str, n: int) -> Finding:
    key = fit.texts[0].key
    examples = shown(fit.texts[:EXAMPLES])
    where = (key.system, key.dataset, key.control, None)
    return Finding("wrong-request", severity, *where, what, n, len(fit.texts), examples)


def _fits_of_prompts(texts: Sequence[Text]) -> Mapping[str, Sequence[_Fit]]:
    """System -> its fit, and those of its seeds."""
    prompts = {p: n for n, p in enumerate(dict.fromkeys(text.sample.prompt for text in texts))}
    if len(prompts) < _PROMPTS:
        return {}
    X = _tf_idf([*(text.words for text in texts), *map(words_of, prompts)])
    X, of_prompts = X[: len(texts)], X[len(texts) :]
    asked = np.array([prompts[text.sample.prompt] for text in texts])
    fits = {}
    for system, rows in grouped(range(len(texts)), lambda n: texts[n].key.system).items():
        others = np.delete(np.arange(len(texts)), rows)
        shape = (len(prompts), len(others))
        sums = csr_array((np.ones(len(others)), (asked[others], np.arange(len(others)))), shape)
        best = _best(X[rows], _normed(of_prompts + sums @ X[others]), np.ones(len(prompts)))
        places = dict(zip(rows, range(len(rows)), strict=True))
        seeds = grouped(rows, lambda n: texts[n].key.seed).values()
        fits[system] = [
            _fit([texts[n] for n in part], [best[places[n]] for n in part], asked[part], prompts)
            for part in (rows, *seeds)
        ]
    return fits


def _fits_of_words(texts: Sequence[Text]) -> Iterator[_Fit]:
    """Of controls that want several words."""
    wanted = {id(text): frozenset(_wanted_words(text)) for text in texts}
    values = {words: n for n, words in enumerate(dict.fromkeys(wanted.values())) if words}
    if len(values) < 2:
        return
    vocabulary = {w: n for n, w in enumerate(dict.fromkeys(chain.from_iterable(values)))}
    Y = _holds(list(values), vocabulary)
    for own in grouped(texts, lambda text: text.key.system).values():
        own = [text for text in own if wanted[id(text)]]
        if own:
            held = [set(text.words) & vocabulary.keys() for text in own]
            best = _best(_holds(held, vocabulary), Y, np.array([len(words) for words in values]))
            asked = np.array([values[wanted[id(text)]] for text in own])
            yield _fit(own, best, asked, values, len(own))


def _wanted_words(text: Text) -> Iterator[str]:
    for value in text.sample.control.values():
        if isinstance(value, tuple):
            yield from words_of(" ".join(wanted_values(value)))


def _holds(sets: Sequence[Set[str]], vocabulary: Mapping[str, int]) -> csr_array:
    """(sets, words): 1 where a set has the word."""
    columns = [vocabulary[word] for words in sets for word in words]
    ends = np.cumsum([0, *map(len, sets)])
    return csr_array((np.ones(len(columns)), columns, ends), (len(sets), len(vocabulary)))


def _best(X: csr_array, Y: csr_array, size: Floats | Codes) -> list[list[int]]:
    """For each row of X, the rows of Y with the largest product ÷ size; none if too many tie.

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
    asked: Codes,
    prompts: Sized,
    independent: int | None = None,
) -> _Fit:
    """The fit of texts.

    best: of each text, the prompts that it fits best; asked: (texts,) the own prompts.
    """
    if independent is None:
        independent = len({(text.key.seed, text.sample.prompt) for text in texts})
    cells = grouped(range(len(texts)), lambda n: texts[n].key)
    hits, shared, others = np.zeros((3, max(map(len, cells.values()))))
    for rows in cells.values():
        fitting: set[tuple[int, int]] = set()
        places: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(int(asked[row]), []).append(place)
        for here, row in enumerate(rows):
            there = best[row]
            for place in chain.from_iterable(places.get(g, []) for g in there):
                hits[(place - here) % len(rows)] += 1 / len(there)
                if asked[rows[place]] != asked[row]:
                    fitting.add((int(asked[row]), (place - here) % len(rows)))
            for place in places[int(asked[row])] if asked[row] in there else ():
                shared[(place - here) % len(rows)] += 1 / len(there)
        for _, k in fitting:
            others[k] += 1
    return _Fit(hits, shared, others, independent, 1 / len(prompts), texts)


def _tf_idf(documents: Sequence[Sequence[str]]) -> csr_array:
    """(documents, words), each row of length 1; a word counts once a document."""
    vocabulary: dict[str, int] = {}
    columns = [[vocabulary.setdefault(w, len(vocabulary)) for w in set(d)] for d in documents]
    df = np.bincount(list(chain.from_iterable(columns)), minlength=len(vocabulary))
    ends = np.cumsum([0, *map(len, columns)])
    flat = np.fromiter(chain.from_iterable(columns), int, ends[-1])
    weights = np.log((1 + len(documents)) / (1 + df))
    shape = (len(documents), len(vocabulary))
    return _normed(csr_array((weights[flat], flat, ends), shape))


def _normed(X: csr_array) -> csr_array:
    length = np.sqrt(X.multiply(X).sum(axis=1))
    scale = 1 / np.where(length > 0, length, 1)
    return X.multiply(scale[:, None]).tocsr()
