"""Models by name for the engine CTranslate2: each is converted once, then opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from levelfield.models.contracts import InfillingModel
from levelfield.models.converted import conversion
from levelfield.models.ctranslate2.causal import CTranslate2CausalModel
from levelfield.models.ctranslate2.conversion import VERSION, check_convertible, convert
from levelfield.models.ctranslate2.infilling import CTranslate2InfillingModel
from levelfield.models.ctranslate2.opening import check_device, open_converted
from levelfield.models.files import load_tokenizer
from levelfield.models.gaps import PLAIN, GapStyle
from levelfield.models.infilling import load_gap_filler
from levelfield.models.loading import Loading
from levelfield.models.reading import reading
from levelfield.models.resolve import Resolved, resolve, resolve_causal


def load_infilling(name: str, loading: Loading) -> InfillingModel:
    """The model of this name that fills gaps: an encoder-decoder of a family whose gap format is
    known, or a causal model that was trained to fill in the middle.

    Raises:
        ModelError: there is no such model, it fills no gaps, or CTranslate2 can't compute it.
    """
    return load_gap_filler(name, loading, _encoder_decoder)


def load_encoder_decoder(name: str, loading: Loading) -> CTranslate2InfillingModel:
    """The encoder-decoder model of this name for sources without gaps.

    Raises:
        ModelError: there is no such model, or CTranslate2 can't compute it.
    """
    return _encoder_decoder(resolve(name, loading), loading, PLAIN)


def load_causal(name: str, loading: Loading) -> CTranslate2CausalModel:
    """The causal language model of this name.

    Raises:
        ModelError: there is no such model, or CTranslate2 can't compute it.
    """
    resolved = resolve_causal(name, loading)
    check_device(loading)
    check_convertible(resolved, "causal")
    tokenizer, config = _tokenizer_and_config(resolved)
    generator = open_converted("Generator", _converted(resolved, loading.dtype), loading)
    return CTranslate2CausalModel(generator, tokenizer, config, batch_tokens=loading.batch_tokens)


def _encoder_decoder(
    resolved: Resolved, loading: Loading, style: GapStyle
) -> CTranslate2InfillingModel:
    check_device(loading)
    check_convertible(resolved, "encoder-decoder")
    tokenizer, config = _tokenizer_and_config(resolved)
    translator = open_converted("Translator", _converted(resolved, loading.dtype), loading)
    return CTranslate2InfillingModel(
        translator, tokenizer, config, style=style, batch_tokens=loading.batch_tokens
    )


def _tokenizer_and_config(resolved: Resolved) -> tuple[Any, Any]:
    import transformers

    with reading(resolved.name):
        config = transformers.AutoConfig.from_pretrained(
            resolved.path, local_files_only=True, trust_remote_code=False
        )
    return load_tokenizer(resolved), config


def _converted(resolved: Resolved, dtype: str) -> Path:
    """The folder of a model's conversion, made now if it is not there."""
    import ctranslate2

    made_by = ("ctranslate2", ctranslate2.__version__, dtype, str(VERSION))
    return conversion(
        resolved.name, resolved.revision, made_by, lambda into: convert(resolved, dtype, into)
    )
