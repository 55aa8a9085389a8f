"""How each kind of judge is loaded and asked: what its model is decides."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Mapping, Sequence

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import ModelError, UserError, with_extra
from levelfield.metrics.aspects import GAP, TEXT, Aspect, load_aspect
from levelfield.metrics.judges.judge import LABEL, Ask, Judge, LoadedJudge
from levelfield.metrics.scorers import EmbeddingScorer, have_tokens, label_evaluators
from levelfield.models.contracts import Gapped, Target
from levelfield.models.load import load as load_model
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import resolve


def describe(judges: Sequence[Judge], loading: Loading = AS_USUAL) -> str:
    """Returns the judges as signatures name them: their models with revisions, and a digest of the
    rest.

    A missing model is `unavailable`: not every run needs all judges of a preset, and one that does
    fails.
    """
    revisions = revisions_of(models_of(judges), loading)
    digests: dict[str, list[str]] = {}
    for judge in judges:
        names = [f"vaderSentiment@{_vader_version()}"] if judge.lexicon else judge.all_models
        versions = {name: revisions.get(name, name) for name in names}
        models = [
            f"{n}@unavailable" if isinstance(r, ModelError) else r for n, r in versions.items()
        ]
        digests.setdefault(f"{judge.name}={','.join(models)}", []).append(judge.digest)
    return " ".join(f"{named}#{'+'.join(several)}" for named, several in digests.items())


def lacking(
    needed: Sequence[Judge], judges: Sequence[Judge], loading: Loading = AS_USUAL
) -> list[ModelError]:
    """What some judges lack, an error a model: it is not available now, or was not when `describe`
    asked for those of all `judges`; or the lexicon."""
    revisions = revisions_of(models_of(judges), loading)
    errors: dict[str, ModelError] = {}
    for judge in needed:
        if judge.lexicon and _vader_version() == _UNAVAILABLE:
            errors[judge.lexicon] = ModelError(_VADER_MISSING)
        for model in filter(None, judge.all_models):
            try:
                if isinstance(revision := revisions[model], ModelError):
                    raise revision
                resolve(model, loading)
            except ModelError as error:
                errors.setdefault(
                    model,
                    ModelError(
                        f"judge '{judge.name}': {error} (give a judge's folder as --option "
                        "judges=FOLDER; judges=offline needs no network)"
                    ),
                )
    return list(errors.values())


def models_of(judges: Sequence[Judge]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(m for judge in judges for m in judge.all_models if m))


@functools.lru_cache(maxsize=16)
def revisions_of(models: tuple[str, ...], loading: Loading) -> Mapping[str, str | ModelError]:
    """Models as signatures name them, or why they are not available.

    A name with a commit needs no request.
    """
    revisions: dict[str, str | ModelError] = {}
    for model in models:
        try:
            commit = _COMMIT.fullmatch(model)
            revisions[model] = model[:-28] if commit else resolve(model, loading).label
        except ModelError as error:
            revisions[model] = error
    return revisions


_COMMIT = re.compile(r"[^@]+@[0-9a-f]{40}")


def _vader_version() -> str:
    try:
        return importlib.metadata.version("vaderSentiment")
    except importlib.metadata.PackageNotFoundError:
        return _UNAVAILABLE


_UNAVAILABLE = "unavailable"
_VADER_MISSING = f"the judge vader is not installed: {with_extra('offline')}"


GENERIC_PROMPT = f"{TEXT} It is about {GAP}."


def load(judge: Judge, judges: Sequence[Judge], loading: Loading) -> LoadedJudge:
    """Returns one of several judges with its model, loaded once a process.

    Raises:
        ModelError: its model is not available (or was not when `describe` asked for those of all
            `judges`), or its labels are not mapped.
        UserError: it does not say what its kind of model needs.
    """
    for error in lacking([judge], judges, loading):
        raise error
    return _load(judge, loading)


@functools.lru_cache(maxsize=16)
def _load(judge: Judge, loading: Loading) -> LoadedJudge:
    if judge.lexicon:
        return LoadedJudge(judge, judge.attribute, ("negative", "positive"), _vader())
    if judge.models:
        return _one_model_per_label(judge, loading)
    kind = resolve(judge.model, loading).kind
    if kind == "classifier":
        return _classifier(judge, loading)
    if kind == "encoder-decoder":
        return _words(judge, loading)
    if kind == "encoder":
        return _zero_shot(judge, loading)
    raise ModelError(f"judge '{judge.name}': {judge.model} is a {kind} model, which can't judge")


def _classifier(judge: Judge, loading: Loading) -> LoadedJudge:
    model = load_model("classifier", judge.model, loading)
    ours = {model_label.strip().casefold(): label for model_label, label in judge.labels}
    model_labels = {label.strip().casefold() for label in model.labels}
    if unknown := sorted(set(ours) - model_labels):
        raise ModelError(
            f"judge '{judge.name}': its model has no label '{unknown[0]}'; it has "
            f"{', '.join(model.labels)}"
        )
    labels = [ours.get(label.strip().casefold(), label) for label in model.labels]
    if unnamed := [label for label in labels if _UNNAMED.search(label)]:
        raise ModelError(
            f"model '{judge.model}' does not say what {unnamed[0]} means; define it in a TOML "
            "file: "
            f'[[judges]] with name = "…", attribute = "…", model = "{judge.model}" and '
            f'labels = {{ "{unnamed[0]}" = "…" }}'
        )
    attribute = judge.attribute
    if not attribute:
        words = {label.strip().casefold() for label in labels}
        attributes = {s.attribute for s in judge.spellings if s.word in words}
        attribute = attributes.pop() if len(attributes) == 1 else ""
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
        likelihood = model.log_likelihood(sources, [targets] * len(texts))
        log_p = np.array([[word_log_p.sum() for word_log_p in row] for row in likelihood.log_p])
        log_p[np.logical_not(have_tokens(texts, model.token_ids))] = np.nan
        return softmax(log_p, axis=1), np.array(likelihood.source_cut, np.bool_)

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
            p_label, cut_here = model.probabilities(
                [before + text + after for text in texts], marks=bool(before or after)
            )
            p[:, column] = p_label[:, 1]
            cut |= cut_here
        p[np.logical_not(have_tokens(texts, models[0].token_ids))] = np.nan
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
        word_logits, cut = scorer.label_logits(evaluators)
        # (texts, evaluators, labels)
        logits = np.reshape(word_logits, (len(texts), each, len(aspect.labels)))
        s = softmax(logits, axis=2)
        cut = cut.reshape(len(texts), each)[:, 0]  # every evaluator reads the same text
        return s.mean(axis=1), cut

    return LoadedJudge(judge, judge.attribute, aspect.labels, ask)


def _aspect_of_words(judge: Judge) -> Aspect:
    """Returns an aspect with one prompt that fits any labels, and the judge's words for them."""
    labels, _ = _labels_and_words(judge, "encoder")
    prompt = judge.template if GAP in judge.template else GENERIC_PROMPT
    return Aspect(judge.attribute, labels, (prompt,), (dict(judge.words),))


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
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    analyzer = SentimentIntensityAnalyzer()

    def ask(texts: Sequence[str]) -> tuple[Floats, Bools]:
        compound = np.array([analyzer.polarity_scores(text)["compound"] for text in texts])
        positive = (1 + compound) / 2
        return np.stack([1 - positive, positive], axis=1), np.zeros(len(texts), np.bool_)

    return ask
