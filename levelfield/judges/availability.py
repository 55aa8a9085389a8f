"""Which models of judges are available, at which revisions: what signatures name."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Mapping, Sequence

from levelfield.core.errors import ModelError
from levelfield.judges.judge import Judge
from levelfield.models.engines import Kind
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OURS, resolve


def describe(judges: Sequence[Judge], loading: Loading = AS_USUAL) -> str:
    """The judges as signatures name them: their models with revisions, and a digest of the rest.

    A missing model is `unavailable`: not every run needs all judges of a preset, and one that does
    fails.
    """
    revisions = revisions_of(models_of(judges), loading)
    digests: dict[str, list[str]] = {}
    for judge in judges:
        names = [f"vaderSentiment@{_vader_version()}"] if judge.lexicon else judge.all_models
        found = {name: revisions.get(name, name) for name in names}
        what = [f"{n}@unavailable" if isinstance(r, ModelError) else r for n, r in found.items()]
        digests.setdefault(f"{judge.name}={','.join(what)}", []).append(judge.digest)
    return " ".join(f"{named}#{'+'.join(several)}" for named, several in digests.items())


def lacking(
    wanted: Sequence[Judge], judges: Sequence[Judge], loading: Loading = AS_USUAL
) -> list[ModelError]:
    """What some judges lack, an error a model: it is not available now, or was not when `describe`
    asked for those of all `judges`; or the lexicon."""
    revisions = revisions_of(models_of(judges), loading)
    errors: dict[str, ModelError] = {}
    for judge in wanted:
        if judge.lexicon and _vader_version() == _UNAVAILABLE:
            errors[judge.lexicon] = ModelError(_VADER_MISSING)
        for model in filter(None, judge.all_models):
            try:
                if isinstance(known := revisions[model], ModelError):
                    raise known
                resolve(model, loading)
            except ModelError as error:
                errors.setdefault(
                    model,
                    ModelError(
                        f"judge '{judge.name}': {error} (a judge's folder is given as --option "
                        "judges=FOLDER; judges=offline needs no network)"
                    ),
                )
    return list(errors.values())


def kinds_of(judges: Sequence[Judge], loading: Loading = AS_USUAL) -> set[Kind]:
    """The kinds of models that some judges are, as far as engines can compute them: neither a
    lexicon, nor a judge of ours, which runs as it is, nor a model that is not available."""
    revisions = revisions_of(models_of(judges), loading)
    kinds: set[Kind] = set()
    for judge in judges:
        for model in filter(None, judge.all_models):
            if isinstance(revisions[model], ModelError):
                continue
            if _COMMIT.fullmatch(model):  # it may not be on this machine yet, nor be needed
                words = judge.words and not judge.models
                kinds.add(
                    "encoder-decoder" if words else "encoder" if judge.aspect else "classifier"
                )
                continue
            resolved = resolve(model, loading)
            if resolved.kind != "causal" and resolved.model_type not in OURS:
                kinds.add(resolved.kind)
    return kinds


def models_of(judges: Sequence[Judge]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(m for judge in judges for m in judge.all_models if m))


@functools.lru_cache(maxsize=16)
def revisions_of(models: tuple[str, ...], loading: Loading) -> Mapping[str, str | ModelError]:
    """Models as signatures name them, or why they are not available.

    A name with a commit needs no request.
    """
    found: dict[str, str | ModelError] = {}
    for model in models:
        try:
            known = _COMMIT.fullmatch(model)
            found[model] = model[:-28] if known else resolve(model, loading).label
        except ModelError as error:
            found[model] = error
    return found


_COMMIT = re.compile(r"[^@]+@[0-9a-f]{40}")


def _vader_version() -> str:
    try:
        return importlib.metadata.version("vaderSentiment")
    except importlib.metadata.PackageNotFoundError:
        return _UNAVAILABLE


_UNAVAILABLE = "unavailable"
_VADER_MISSING = "the judge vader is not installed: pip install 'levelfield[offline]'"
