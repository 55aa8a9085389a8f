"""Which languages a model reads, as far as it is known without loading it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from levelfield.core.paths import existing_path

Languages = frozenset[str]
"""ISO 639-1 codes."""

ENGLISH: Languages = frozenset({"en"})

# fmt: off
_ENGLISH_MODELS = frozenset({
    "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
    "fabriceyhc/bert-base-uncased-ag_news",
    "facebook/bart-large", "facebook/bart-large-cnn", "google/pegasus-large",
    "michelecafagna26/t5-base-finetuned-sst2-sentiment", "MingZhong/unieval-dialog",
    "MingZhong/unieval-sum", "openai-community/gpt2", "openai-community/gpt2-large",
    "openai-community/gpt2-medium", "openai-community/gpt2-xl",
    "textattack/distilbert-base-uncased-ag-news",
})
# fmt: on
"""Models of the hub that metrics and judges name, of which cards or papers say that they learnt
English alone."""

_HEADER = re.compile(r"---\s*\n(.*?)\n---", re.DOTALL)
_FIELD = re.compile(r"^languages?:[ \t]*(.*(?:\n[ \t]*-.*)*)", re.MULTILINE)
_CODE = re.compile(r"(?<![\w-])[a-z]{2,3}(?![\w-])")


def model_languages(model: str) -> Languages | None:
    """Returns the languages that a model reads, by its name or by the card in its folder.

    Args:
        model: an embedded model, all of which read English, a folder whose `README.md` has
            `language:` in its header, as cards of the hub have, or a hub name, optionally
            `name@revision`.

    Returns:
        None if neither says it, or if the card says that the model reads many.
    """
    if model.startswith("offline/") or model.partition("@")[0] in _ENGLISH_MODELS:
        return ENGLISH
    folder = existing_path(model.strip())
    return _card_languages(folder / "README.md") if folder and folder.is_dir() else None


def languages_of_models(models: Iterable[str]) -> Mapping[str, Languages]:
    """Returns model -> the languages that it reads, for models whose languages are known."""
    read = {model: model_languages(model) for model in models}
    return {model: languages for model, languages in read.items() if languages}


@functools.lru_cache(maxsize=32)
def _card_languages(card: Path) -> Languages | None:
    """Returns what the header of a card says; a card that can't be read says nothing."""
    try:
        header = _HEADER.match(card.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    field = _FIELD.search(header[1]) if header else None
    codes = frozenset(_CODE.findall(field[1])) if field else frozenset()
    return codes or None
