"""Converted models into memory: which device, which precision, how many threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from levelfield.core.arrays import Singles
from levelfield.core.errors import ModelError, first_line
from levelfield.core.processors import model_threads
from levelfield.models.ctranslate2.conversion import WEIGHTS
from levelfield.models.loading import Loading


def check_device(loading: Loading) -> tuple[str, int]:
    """CTranslate2's name of the device, and which of them.

    Raises:
        ModelError: CTranslate2 has no such device, or not this precision there.
    """
    import ctranslate2

    name, _, index = loading.device.partition(":")
    if name == "auto":
        name = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ModelError(f"engine 'ctranslate2' can't use device '{name}'; it has cpu and cuda")
    at = int(index or 0)
    if name == "cuda" and at >= ctranslate2.get_cuda_device_count():
        raise ModelError(f"device '{loading.device}' can't be used here; `--device cpu` always can")
    if WEIGHTS[loading.dtype] not in ctranslate2.get_supported_compute_types(name, at):
        raise ModelError(f"engine 'ctranslate2' has no {loading.dtype} on device '{name}'")
    return name, at


def open_converted(kind: Literal["Translator", "Generator"], folder: Path, loading: Loading) -> Any:
    """CTranslate2's object of a converted model.

    Raises:
        ModelError: as `check_device`; or the folder holds no such model.
    """
    import ctranslate2

    device, index = check_device(loading)

    try:
        return getattr(ctranslate2, kind)(
            str(folder),
            device=device,
            device_index=index,
            compute_type=WEIGHTS[loading.dtype],
            inter_threads=1,
            intra_threads=model_threads(),
        )
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"engine 'ctranslate2' can't open what it converted: {first_line(error)}; remove it "
            "with `levelfield cache clear --models`"
        ) from error


def array(view: Any) -> Singles:
    """CTranslate2's view of an array, wherever it lies, as one of NumPy's."""
    from ctranslate2 import Device

    values: Singles = np.asarray(view if view.device == "cpu" else view.to_device(Device.cpu))
    return values
