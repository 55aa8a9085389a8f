"""Judges: what says which value of an attribute a text has.

A judge gives a probability to every label of its attribute and votes for the likeliest. It is a
classifier, an encoder-decoder model that writes a word for each label, one binary classifier per
label, an encoder that compares texts with labels, or a lexicon. Judges are data: those of
`judges.toml`, or of a file of the user's own.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib.metadata
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from levelfield.aspects import GAP, TEXT, Aspect, load_aspect
from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import ModelError, UserError
from levelfield.io.toml import read_toml
from levelfield.models.contracts import Gapped, Target
from levelfield.models.load import load as load_model
from levelfield.models.loading import Loading
from levelfield.models.resolve import OFFLINE_MODEL, attribute_of, resolve
from levelfield.models.scorers import EmbeddingScorer, label_evaluators

Pairs = tuple[tuple[str, str], ...]

LABEL = "<label>"
GENERIC_PROMPT = f"{TEXT} It is about {GAP}."
TIE = 1e-9
"""Probabilities no farther apart than this are equal."""


class Spelling(NamedTuple):
    """A word that means a label of an attribute; `word` is case-folded."""

    attribute: str
    word: str
    label: str


@dataclass(frozen=True)
class Judge:
    """What a judge is made of.

    Attributes:
        name: under which it votes. Several judges of one name are one judge with several sets of
            labels: the first that has the wanted one speaks.
        attribute: of a control; empty for a classifier named on the spot, whose labels tell.
        model: hub name, folder, or `offline/minilm`; what it is decides how it is asked.
        models: label -> a binary classifier of that label alone.
        lexicon: `vader`.
        labels: a classifier's own label -> ours. Several may mean one of ours; those not named
            keep their names.
        words: label -> the word that an encoder-decoder writes for it, an encoder compares with,
            or that stands for `<label>` in the template of binary classifiers.
        template: what models are asked around `<text>`.
        aspect: for an encoder, the prompts and words to compare with, instead of `words`.
        spellings: how words of controls and of models mean labels.
    """

    name: str
    attribute: str = ""
    model: str = ""
    models: Pairs = ()
    lexicon: str = ""
    labels: Pairs = ()
    words: Pairs = ()
    template: str = TEXT
    aspect: str = ""
    spellings: tuple[Spelling, ...] = ()

    def label(self, word: str, attribute: str = "") -> str:
        """The label that a word means: one that is spelled so, else the word case-folded."""
        word, attribute = word.strip(), attribute or self.attribute
        known = (s.label for s in self.spellings if s[:2] == (attribute, word.casefold()))
        return next(known, word.casefold())

    @property
    def all_models(self) -> tuple[str, ...]:
        """The models it is made of."""
        return tuple(dict.fromkeys(model for _, model in self.models)) or (self.model,)

    @property
    def digest(self) -> str:
        """Of everything else that could change a vote."""
        said = (
            self.attribute,
            [label for label, _ in self.models],
            self.labels,
            self.words,
            self.template,
            load_aspect(self.aspect).digest if self.aspect else "",
            self.spellings,
        )
        return hashlib.sha256(repr(said).encode()).hexdigest()[:8]


class Figure(NamedTuple):
    """How good a judge was found to be on a labelled set.

    Attributes:
        kind: `published` (accuracy in percent) or `measured` (shares).
        undecided: the share of texts without a vote; they count as wrong.
        shares: how often each label was voted for.
    """

    judge: str
    attribute: str
    kind: Literal["published", "measured"]
    dataset: str
    accuracy: float
    n: int | None = None
    balanced_accuracy: float | None = None
    undecided: float | None = None
    shares: Mapping[str, float] | None = None


class JudgeVerdict(NamedTuple):
    """What a judge says of a text.

    Attributes:
        vote: the likeliest label; None where two are equally likely, or nothing in the text can
            be read.
        p: of the labels, in their order.
        cut: whether the judge saw less than all of the text.
    """

    judge: str
    vote: str | None
    labels: tuple[str, ...]
    p: Floats
    cut: bool


# -- judges as data


class _File(NamedTuple):
    judges: tuple[Judge, ...]
    presets: Mapping[str, Mapping[str, Sequence[str]]]
    spellings: tuple[Spelling, ...]
    figures: tuple[Figure, ...]


@functools.cache
def _shipped() -> _File:
    file = resources.files("levelfield.judges") / "judges.toml"
    return _parse("judges.toml", read_toml(file), None)


def figures(name: str | None = None) -> tuple[Figure, ...]:
    """How good the shipped judges are, as published and as measured."""
    return tuple(f for f in _shipped().figures if name in (None, f.judge))


def presets() -> tuple[str, ...]:
    return tuple(_shipped().presets)


def choose(choice: str, *, allow_pickle: bool = False) -> tuple[Judge, ...]:
    """The judges that a user's words name.

    Args:
        choice: separated by commas: a preset, a judge's name, a model's name or folder, or a TOML
            file with `[[judges]]`.
        allow_pickle: as for `resolve`; it is asked what models named on the spot are.

    Raises:
        UserError: there is no such judge; the file does not say judges; two have one name.
    """
    shipped = _shipped()
    chosen: list[Judge] = []
    spellings = list(shipped.spellings)
    for word in (w.strip() for w in choice.split(",")):
        found: Sequence[Judge]
        if word in shipped.presets:
            names = shipped.presets[word]
            found = [j for j in shipped.judges if j.name in names.get(j.attribute, ())]
        elif named := [j for j in shipped.judges if j.name == word]:
            found = named
        elif word.endswith(".toml"):
            path = Path(word).expanduser()
            file = _parse(word, read_toml(path, word, kind="judges file"), path.parent)
            found = file.judges
            spellings += file.spellings
        elif "/" in word or (word and Path(word).expanduser().is_dir()):
            found = _on_the_spot(word, allow_pickle)
        else:
            known = [*shipped.presets, *dict.fromkeys(j.name for j in shipped.judges)]
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UserError(
                f"there is no judge '{word}'; {hint} (or give a model's name, or a TOML file)"
            )
        if twice := {j.name for j in found} & {j.name for j in chosen}:
            raise UserError(
                f"judges={choice}: two judges are called '{min(twice)}'; leave one out, or name "
                "them in a TOML file"
            )
        chosen += found
    # a file's own spellings come first: they may mend ours
    known_words = tuple(reversed(spellings))
    return tuple(replace(judge, spellings=known_words) for judge in chosen)


def _on_the_spot(model: str, allow_pickle: bool) -> list[Judge]:
    """The judges that a model named without a file is."""
    resolved = resolve(model, allow_pickle=allow_pickle)
    if resolved.kind == "classifier":
        return [Judge(resolved.name, attribute_of(resolved), model=model)]
    if resolved.kind == "encoder":
        ours = [j for j in _shipped().judges if j.name == "minilm"]
        return [replace(j, name=resolved.name, model=model) for j in ours]
    raise UserError(
        f"model '{model}' is a {resolved.kind} model: to have it judge, say what it is asked and "
        "what it answers in a TOML file: [[judges]] with name, attribute, model, "
        f'template = "{TEXT}" and words = {{positive = "…", negative = "…"}}'
    )


_TOP_KEYS = {"judges", "spellings", "presets"}
_KEYS = {
    "name",
    "attribute",
    "model",
    "models",
    "lexicon",
    "labels",
    "words",
    "template",
    "aspect",
    "published",
    "measured",
}


def _parse(name: str, data: Mapping[str, Any], folder: Path | None) -> _File:
    tables = data.get("judges")
    if not isinstance(tables, list) or not tables:
        raise UserError(f"{name}: expected at least one table [[judges]]")
    problems = [f"{name}: {p}" for n, table in enumerate(tables, 1) for p in _problems(n, table)]
    problems += [f"{name}: unknown key '{k}'" for k in sorted(set(data) - _TOP_KEYS)]
    said = data.get("spellings", {})
    if not _is_table(said, lambda labels: _is_table(labels, _is_words)):
        problems.append(f'{name}: expected [spellings.ATTRIBUTE] with label = ["other spelling"]')
    if problems:
        raise UserError("\n".join(problems))
    return _File(
        tuple(_judge(table, folder) for table in tables),
        data.get("presets", {}),
        tuple(
            Spelling(attribute, word.strip().casefold(), label)
            for attribute, labels in said.items()
            for label, others in labels.items()
            for word in (label, *others)
        ),
        tuple(
            Figure(table["name"], table["attribute"], kind, **figure)
            for table in tables
            for kind in ("published", "measured")
            for figure in table.get(kind, ())
        ),
    )


def _judge(table: Mapping[str, Any], folder: Path | None) -> Judge:
    def at(path: str) -> str:
        """Folders and files are named from where the TOML file is."""
        beside = folder / Path(path).expanduser() if folder else None
        return str(beside) if beside and beside.exists() else path

    return Judge(
        name=table["name"],
        attribute=table["attribute"],
        model=at(table.get("model", "")) if table.get("model") else "",
        models=tuple((label, at(model)) for label, model in table.get("models", {}).items()),
        lexicon=table.get("lexicon", ""),
        labels=tuple(table.get("labels", {}).items()),
        words=tuple(table.get("words", {}).items()),
        template=table.get("template", TEXT),
        aspect=at(table["aspect"]) if "aspect" in table else "",
    )


def _problems(number: int, table: object) -> list[str]:
    """Everything that keeps a table from being a judge."""
    if not isinstance(table, dict) or not _is_word(table.get("name")):
        return [f"judges, table {number}: expected a name"]
    who = f"judge '{table['name']}'"
    problems = [f"{who}: unknown key '{key}'" for key in sorted(set(table) - _KEYS)]
    if not _is_word(table.get("attribute")):
        problems.append(f'{who}: expected an attribute, e.g. attribute = "sentiment"')
    given = [key for key in ("model", "models", "lexicon") if key in table]
    if len(given) != 1:
        problems.append(f"{who}: expected one of model, models, lexicon; it has {given or 'none'}")
    for key in ("model", "aspect", "template"):
        if key in table and not _is_word(table[key]):
            problems.append(f"{who}: {key} is empty or not a text")
    for key in ("models", "labels", "words"):
        if key in table and not (table[key] and _is_table(table[key], _is_word)):
            problems.append(f"{who}: expected {key} = {{label = …}}")
    if not problems and len(table.get("models", "ab")) < 2:
        problems.append(f"{who}: expected models for at least two labels")
    if table.get("lexicon", "vader") != "vader":
        problems.append(f"{who}: there is no lexicon '{table['lexicon']}'; there is vader")
    if str(table.get("template", TEXT)).count(TEXT) != 1:
        problems.append(f"{who}: expected {TEXT} once in the template")
    return problems


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_words(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_word, value))


def _is_table(value: object, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(fits, value.values()))


def describe(judges: Sequence[Judge], *, allow_pickle: bool = False) -> str:
    """The judges as signatures name them: their models with revisions, and a digest of the rest.

    A model that can't be had is `unavailable`: not every run needs all judges of a preset, and one
    that does need it fails.
    """
    revisions = _revisions(_models(judges), allow_pickle)
    digests: dict[str, list[str]] = {}
    for judge in judges:
        names = [f"vaderSentiment@{_vader_version()}"] if judge.lexicon else judge.all_models
        found = {name: revisions.get(name, name) for name in names}
        what = [f"{n}@unavailable" if isinstance(r, ModelError) else r for n, r in found.items()]
        digests.setdefault(f"{judge.name}={','.join(what)}", []).append(judge.digest)
    return " ".join(f"{named}#{'+'.join(several)}" for named, several in digests.items())


def load(judge: Judge, judges: Sequence[Judge], loading: Loading) -> LoadedJudge:
    """One of some judges with its model, loaded once a process.

    Raises:
        ModelError: its model can't be had (nor could it be when `describe` asked for those of all
            `judges`), or its labels are not mapped.
        UserError: it does not say what its kind of model needs.
    """
    revisions = _revisions(_models(judges), loading.allow_pickle)
    for model in filter(None, judge.all_models):
        try:
            if isinstance(known := revisions[model], ModelError):
                raise known
            resolve(model, allow_pickle=loading.allow_pickle)
        except ModelError as error:
            raise ModelError(
                f"judge '{judge.name}': {error} (a judge's folder is given as --option "
                "judges=FOLDER; judges=offline needs no network)"
            ) from error
    return _load(judge, loading)


def _models(judges: Sequence[Judge]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(m for judge in judges for m in judge.all_models if m))


@functools.lru_cache(maxsize=16)
def _revisions(models: tuple[str, ...], allow_pickle: bool) -> Mapping[str, str | ModelError]:
    """Models as signatures name them, or why they can't be had.

    What names its commit needs no asking. Once the hub could not be asked it is asked no more,
    since that takes long each time.
    """
    from huggingface_hub.errors import LocalEntryNotFoundError

    found: dict[str, str | ModelError] = {}
    no_network = False
    for model in models:
        try:
            if no_network:
                _must_be_here(model)
            known = _COMMIT.fullmatch(model)
            label = model[:-28] if known else resolve(model, allow_pickle=allow_pickle).label
            found[model] = label
        except ModelError as error:
            found[model] = error
            no_network |= isinstance(error.__cause__, LocalEntryNotFoundError)
    return found


def _must_be_here(model: str) -> None:
    from huggingface_hub import try_to_load_from_cache

    if model == OFFLINE_MODEL or Path(model).expanduser().is_dir() or not _HUB.fullmatch(model):
        return
    name, _, revision = model.partition("@")
    if not isinstance(try_to_load_from_cache(name, "config.json", revision=revision or None), str):
        raise ModelError(
            f"model '{name}' is not on this machine and the hub can't be asked (no network); "
            f"where there is a network, run `hf download {name} --local-dir FOLDER`"
        )


_COMMIT = re.compile(r"[^@]+@[0-9a-f]{40}")
_HUB = re.compile(r"[^/@]+/[^/@]+(@.+)?")


def _vader_version() -> str:
    try:
        return importlib.metadata.version("vaderSentiment")
    except importlib.metadata.PackageNotFoundError:
        return "unavailable"


# -- judges at work


Ask = Callable[[Sequence[str]], tuple[Floats, Bools]]
"""Texts -> P(label | text), (texts, labels), and which texts were cut, (texts,)."""


class LoadedJudge:
    """A judge with its model. What it said of recent texts is kept, since several metrics ask for
    the same.

    Attributes:
        attribute: what it judges; empty where its labels do not tell, so that any may be meant.
        labels: at least two, in the order of the probabilities.
    """

    def __init__(self, judge: Judge, attribute: str, labels: Sequence[str], ask: Ask) -> None:
        self.judge = judge
        self.attribute = attribute
        # several labels of a model may mean one of ours
        self.labels = tuple(dict.fromkeys(judge.label(label, attribute) for label in labels))
        if len(self.labels) < 2:
            raise UserError(f"judge '{judge.name}' has one label only: {', '.join(self.labels)}")
        self._column = [self.labels.index(judge.label(label, attribute)) for label in labels]
        self._ask = ask
        self._known: dict[bytes, tuple[Floats, bool]] = {}

    def verdicts(self, texts: Sequence[str]) -> list[JudgeVerdict]:
        """What it says of each text."""
        keys = [_key(text) for text in texts]
        fresh = {k: text for k, text in zip(keys, texts, strict=True) if k not in self._known}
        said = dict(self._new(fresh)) if fresh else {}
        said |= {k: self._known[k] for k in keys if k not in said}
        if len(self._known) + len(fresh) > _REMEMBERED:
            self._known.clear()
        self._known |= {k: said[k] for k in fresh}
        return [
            JudgeVerdict(self.judge.name, vote(said[k][0], self.labels), self.labels, *said[k])
            for k in keys
        ]

    def _new(self, texts: Mapping[bytes, str]) -> Iterator[tuple[bytes, tuple[Floats, bool]]]:
        of_model, cut = self._ask(list(texts.values()))
        p = np.zeros((len(texts), len(self.labels)))
        for column, values in zip(self._column, of_model.T, strict=True):
            p[:, column] += values
        return zip(texts, zip(p, cut.tolist(), strict=True), strict=True)


_REMEMBERED = 65_536
"""Texts of which a judge remembers what it said, about 25 MB."""


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def vote(p: Floats, labels: Sequence[str]) -> str | None:
    """The likeliest label; None if it is not alone at the top, or nothing is known.

    >>> vote(np.array([0.2, 0.8]), ("negative", "positive"))
    'positive'
    >>> vote(np.array([0.5, 0.5]), ("negative", "positive")) is None
    True
    """
    if np.isnan(p).any() or (p >= p.max() - TIE).sum() > 1:
        return None
    return labels[int(p.argmax())]


@functools.lru_cache(maxsize=16)
def _load(judge: Judge, loading: Loading) -> LoadedJudge:
    if judge.lexicon:
        return LoadedJudge(judge, judge.attribute, ("negative", "positive"), _vader())
    if judge.models:
        return _one_model_per_label(judge, loading)
    kind = resolve(judge.model, allow_pickle=loading.allow_pickle).kind
    if kind == "classifier":
        return _classifier(judge, loading)
    if kind == "encoder-decoder":
        return _words(judge, loading)
    if kind == "encoder":
        return _zero_shot(judge, loading)
    raise ModelError(f"judge '{judge.name}': {judge.model} is a {kind} model, which can't judge")


def _classifier(judge: Judge, loading: Loading) -> LoadedJudge:
    model = load_model("classifier", judge.model, loading)
    ours = {theirs.strip().casefold(): label for theirs, label in judge.labels}
    own = {label.strip().casefold() for label in model.labels}
    if unknown := sorted(set(ours) - own):
        raise ModelError(
            f"judge '{judge.name}': its model has no label '{unknown[0]}'; it has "
            f"{', '.join(model.labels)}"
        )
    labels = [ours.get(label.strip().casefold(), label) for label in model.labels]
    if unnamed := [label for label in labels if _UNNAMED.search(label)]:
        raise ModelError(
            f"model '{judge.model}' does not say what {unnamed[0]} means; say it in a TOML file: "
            f'[[judges]] with name = "…", attribute = "…", model = "{judge.model}" and '
            f'labels = {{ "{unnamed[0]}" = "…" }}'
        )
    attribute = judge.attribute
    if not attribute:
        words = {label.strip().casefold() for label in labels}
        told = {s.attribute for s in judge.spellings if s.word in words}
        attribute = told.pop() if len(told) == 1 else ""
    return LoadedJudge(judge, attribute, labels, model.probabilities)


_UNNAMED = re.compile(r"LABEL_\d+$")


def _words(judge: Judge, loading: Loading) -> LoadedJudge:
    """P(label) ∝ P(word, end | template with the text)."""
    from scipy.special import softmax

    labels, words = _labels_and_words(judge, "encoder-decoder")
    model = load_model("encoder-decoder", judge.model, loading)
    targets = [Target(word, end=True) for word in words]
    if not all(model.token_ids(words)):
        raise ModelError(f"judge '{judge.name}': a word of {list(words)} has no token of its model")
    before, after = judge.template.split(TEXT)

    def ask(texts: Sequence[str]) -> tuple[Floats, Bools]:
        # what is cut off of a long text is what is farthest from the template's longer side
        sources = [
            Gapped(before + text, after, gap=False)
            if after.strip()
            else Gapped("", before + text + after, gap=False)
            for text in texts
        ]
        found = model.log_likelihood(sources, [targets] * len(texts))
        log_p = np.array([[of_word.sum() for of_word in row] for row in found.log_p])
        log_p[[not ids for ids in model.token_ids([t[:_BEGINNING] for t in texts])]] = np.nan
        return softmax(log_p, axis=1), np.array(found.source_cut, np.bool_)

    return LoadedJudge(judge, judge.attribute, labels, ask)


def _one_model_per_label(judge: Judge, loading: Loading) -> LoadedJudge:
    """P(label) ∝ what the label's own model gives to its second label."""
    labels = [label for label, _ in judge.models]
    models = [load_model("classifier", model, loading) for _, model in judge.models]
    for (label, name), model in zip(judge.models, models, strict=True):
        if len(model.labels) != 2:
            raise ModelError(
                f"judge '{judge.name}': expected a binary classifier for '{label}', and {name} "
                f"has {len(model.labels)} labels: {', '.join(model.labels)}"
            )
    words = dict(judge.words)
    templates = [judge.template.replace(LABEL, words.get(label, label)) for label in labels]

    def ask(texts: Sequence[str]) -> tuple[Floats, Bools]:
        p = np.empty((len(texts), len(labels)))
        cut: Bools = np.zeros(len(texts), np.bool_)
        for column, (model, template) in enumerate(zip(models, templates, strict=True)):
            before, after = template.split(TEXT)
            of_label, cut_here = model.probabilities([before + text + after for text in texts])
            p[:, column] = of_label[:, 1]
            cut |= cut_here
        p[[not ids for ids in models[0].token_ids([t[:_BEGINNING] for t in texts])]] = np.nan
        p /= np.maximum(p.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return p, cut

    return LoadedJudge(judge, judge.attribute, labels, ask)


def _zero_shot(judge: Judge, loading: Loading) -> LoadedJudge:
    """P(label): as `ctrleval.attribute-relevance` has it, for every label."""
    from scipy.special import softmax

    aspect = load_aspect(judge.aspect) if judge.aspect else _aspect_of_words(judge)
    scorer = EmbeddingScorer(load_model("encoder", judge.model, loading))
    each = len(aspect.prompts) * len(aspect.verbalizers)

    def ask(texts: Sequence[str]) -> tuple[Floats, Bools]:
        evaluators = [e for text in texts for e in label_evaluators(text, aspect)]
        of_words, cut = scorer.label_logits(evaluators)
        # (texts, evaluators, labels)
        logits = np.reshape(of_words, (len(texts), each, len(aspect.labels)))
        s = softmax(logits, axis=2)
        cut = cut.reshape(len(texts), each)[:, 0]  # every evaluator reads the same text
        return s.mean(axis=1), cut

    return LoadedJudge(judge, judge.attribute, aspect.labels, ask)


def _aspect_of_words(judge: Judge) -> Aspect:
    """One prompt that fits any labels, with the judge's words for them."""
    labels, _ = _labels_and_words(judge, "encoder")
    prompt = judge.template if GAP in judge.template else GENERIC_PROMPT
    return Aspect(judge.attribute, labels, (prompt,), (dict(judge.words),), digest="")


def _labels_and_words(judge: Judge, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if len(judge.words) < 2:
        raise UserError(
            f"judge '{judge.name}': {judge.model} is an {kind} model; expected words = "
            '{label = "…"} with a word for each label'
            + (" or an aspect" if kind == "encoder" else "")
        )
    labels, words = zip(*judge.words, strict=True)
    return labels, words


def _vader() -> Ask:
    """P(positive) = (1 + compound) / 2, with compound in [−1, 1] (Hutto and Gilbert 2014)."""
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError as error:
        raise ModelError(
            "the judge vader is not installed: pip install 'levelfield[offline]'"
        ) from error
    analyzer = SentimentIntensityAnalyzer()

    def ask(texts: Sequence[str]) -> tuple[Floats, Bools]:
        compound = np.array([analyzer.polarity_scores(text)["compound"] for text in texts])
        positive = (1 + compound) / 2
        return np.stack([1 - positive, positive], axis=1), np.zeros(len(texts), np.bool_)

    return ask


_BEGINNING = 10_000
"""Characters of a text that tell whether a model has any tokens for it."""
