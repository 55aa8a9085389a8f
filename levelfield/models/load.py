"""One door to every model: `load(kind, name, loading)`.

A new kind is a contract and an entry in every table here and in `LOADERS`.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, overload

from levelfield.core.errors import models_needed
from levelfield.models.causal_tokens import Bos
from levelfield.models.contracts import (
    CausalModel,
    CausalVocabulary,
    ChoosingModel,
    Classifier,
    EncoderDecoderModel,
    Gapped,
    InfillingModel,
    PairRegressor,
    SentenceEncoder,
    Target,
    TokenEncoder,
)
from levelfield.models.loading import LOADERS, Kind, Loader, Loading, reading
from levelfield.models.resolve import resolve

SMALL: Mapping[str, Loader] = {
    "levelfield-textcnn": "levelfield.models.small.textcnn:load_textcnn",
    "levelfield-fasttext": "levelfield.models.small.fasttext:load_fasttext",
    "levelfield-linear": "levelfield.models.small.heads:load_linear",
}
"""Classifiers that `levelfield train judge` makes. They run in float32 whatever
`dtype` says."""

PAIRS: Mapping[str, Loader] = {
    "levelfield-continuation": "levelfield.models.small.heads:load_continuation",
}
"""Regressors of our own, which run as those classifiers do."""

KEPT: Mapping[Kind, int] = {
    "infilling": 4,
    "encoder-decoder": 4,
    "causal": 4,
    "causal-tokens": 4,
    "encoder": 2,
    "states": 2,
    "classifier": 8,
    "regressor": 2,
    "choices": 2,
}
"""How many models of a kind a process keeps, those used last: two of each kind that is compared
with itself, and as many again where a pair is."""


_TEXT = "trial"
_TARGETS = [[Target(_TEXT, end=True)]]

TRIALS: Mapping[Kind, Callable[[Any], object]] = {
    "infilling": lambda model: model.log_likelihood([Gapped(_TEXT, _TEXT)], _TARGETS),
    "encoder-decoder": lambda model: model.log_likelihood([Gapped(_TEXT, "", gap=False)], _TARGETS),
    "causal": lambda model: model.log_likelihood([f"{_TEXT} {_TEXT}"]),  # the first may go unscored
    "causal-tokens": lambda model: model.ids([_TEXT]),
    "encoder": lambda model: model.sentences([_TEXT]),
    "states": lambda model: model.of([_TEXT]),
    "classifier": lambda model: (model.probabilities([_TEXT]), ", ".join(model.labels)),
    "regressor": lambda model: model.values([(_TEXT, _TEXT)]),
    "choices": lambda model: model.log_p([_TEXT], [1]),
}
"""What every model of a kind can do: a folder whose configuration only looks right fails here, by
its name, and not in the middle of a run."""


@overload
def load(kind: Literal["infilling"], name: str, loading: Loading = ...) -> InfillingModel: ...
@overload
def load(
    kind: Literal["encoder-decoder"], name: str, loading: Loading = ...
) -> EncoderDecoderModel: ...
@overload
def load(
    kind: Literal["causal"], name: str, loading: Loading = ..., *, bos: Bos = ...
) -> CausalModel: ...
@overload
def load(
    kind: Literal["causal-tokens"], name: str, loading: Loading = ..., *, bos: Bos = ...
) -> CausalVocabulary: ...
@overload
def load(kind: Literal["encoder"], name: str, loading: Loading = ...) -> SentenceEncoder: ...
@overload
def load(
    kind: Literal["states"], name: str, loading: Loading = ..., *, layer: int
) -> TokenEncoder: ...
@overload
def load(kind: Literal["classifier"], name: str, loading: Loading = ...) -> Classifier: ...
@overload
def load(kind: Literal["regressor"], name: str, loading: Loading = ...) -> PairRegressor: ...
@overload
def load(
    kind: Literal["choices"], name: str, loading: Loading = ..., *, bos: Bos = ...
) -> ChoosingModel: ...
def load(kind: Kind, name: str, loading: Loading = Loading(), **options: object) -> object:  # noqa: B008
    """Returns the model of this name under the contract of its kind, loaded once a process.

    Args:
        kind: the contract, such as `classifier`.
        name: `offline/minilm` or another embedded model, a local folder, or a hub name, optionally
            `name@revision`.
        loading: where and how it is loaded.
        options: `layer` of `states`: the layer whose states are returned; `bos` of causal models:
            whether BOS precedes every text.

    Raises:
        ModelError: the model does not exist or is of another kind, or a library for it is missing.
        UserError: the model lacks the layer.
    """
    if options.get("bos") == "auto":  # the default is the same model as without the option
        del options["bos"]
    with models_needed():
        return _KEPT[kind](name, loading.replace(engine="auto"), **options)


def forget() -> None:
    """Drops all models but those that a scorer or a judge holds; each is loaded again on demand."""
    for kept in _KEPT.values():
        kept.cache_clear()


def _load(kind: Kind, name: str, loading: Loading, **options: object) -> object:
    loader = LOADERS[kind]
    if ours := _SMALL.get(kind):
        loader = ours.get(resolve(name, loading).model_type, loader)
    make = pkgutil.resolve_name(loader) if isinstance(loader, str) else loader
    with reading(Path(name).name if Path(name).is_dir() else name):
        model: object = make(name, loading, **options)
        if isinstance(loader, str):  # whoever passes a function answers for its models
            TRIALS[kind](model)
    return model


_SMALL: Mapping[Kind, Mapping[str, Loader]] = {"classifier": SMALL, "regressor": PAIRS}

_KEPT = {
    kind: functools.lru_cache(maxsize=size)(functools.partial(_load, kind))
    for kind, size in KEPT.items()
}
