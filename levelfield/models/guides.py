"""Guides by name: what techniques of controlled generation learn on a base, kept in a folder.

A folder has `guide.json`, which says what the guide is, `guide.safetensors` and a card. Nothing
here needs PyTorch, so techniques refuse a control before they load a model.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from levelfield.core.errors import ModelError, UserError
from levelfield.io.problems import shown
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OFFLINE_LM, files_digest, json_in, local_folder, resolve

GuideKind = Literal[
    "class-lm", "future", "soft-prompt", "head", "latent", "encoder", "vector", "heads", "reft"
]
"""`class-lm`: log P(token | label, text so far). `future`: P(label of the whole text | text so
far). `soft-prompt`: embeddings before the text, a matrix a label. `head`: P(label of a text | the
base's states). `latent`: texts as small vectors, and those as keys and values before the text.
`encoder`: P(label of a whole text), by a model of its own. `vector`: directions of the base's
states, a matrix a label. `heads`: directions of what its attention heads leave, a matrix a
label. `reft`: low-rank edits of the base's states for each label."""

TRAINED_FOR: Mapping[GuideKind, str] = {
    "class-lm": "gedi",
    "future": "fudge",
    "soft-prompt": "discup",
    "head": "pplm",
    "latent": "multictg",
    "vector": "caa",
    "heads": "iti",
    "reft": "loreft",
}
"""Kind of guide -> a technique that needs it, by whose name `levelfield train guide` calls it; none
of a kind that is only converted."""

ABOUT, WEIGHTS = "guide.json", "guide.safetensors"

SHIPPED: Mapping[str, str] = {
    "offline/sentiment-lm": "370b98dafd960b69f4a8f4916b47e6b3b74728d3858e72b579c2de55568e900b",
    "offline/sentiment-future": "2932d2eb0dbc723233c17d0544eea5ec2248164f0720241dfb51abc69535638e",
    "offline/sentiment-head": "0816b6463453377816383c176015bfb0389e5ca0397c3d428cb3f7cea7474abd",
    "offline/sentiment-prompt": "1380ba4757217a7f1e50a88007642ade0c98620fe75f89cafa4dcf1f9d01225e",
    "offline/sentiment-vector": "6f7407b6ad1f269b3220cdb6078ede6faad94be7c946ff5771099b6bf99ef6a1",
    "offline/sentiment-heads": "96073da093b738429c224dd585035a2fa88f38ea858645ef04a157ff71810038",
    "offline/sentiment-reft": "b0545a4860f0673b21bfebcb1be932e52e038516f5987a195865ae7ddeea8371",
}
"""Guides that come with the package, and their checksums (`Guide.checksum`)."""

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Guide:
    """What is known of a guide without its weights.

    Attributes:
        name: `offline/NAME` of one that comes with the package, else the folder's name.
        path: the folder.
        kind: what the guide predicts.
        attribute: what the labels are values of; of a guide for several attributes, their names
            with commas between them.
        labels: in the order of the weights, one attribute after the other.
        base: the name of the model that the guide was trained on.
        revision: which revision of that model.
        checksum: of `guide.json` and `guide.safetensors`.
        settings: the rest of `guide.json`, which readers of the guide's kind understand.
    """

    name: str
    path: Path
    kind: GuideKind
    attribute: str
    labels: tuple[str, ...]
    base: str
    revision: str
    checksum: str
    settings: Mapping[str, Any] = field(compare=False, repr=False)

    @property
    def label(self) -> str:
        """How signatures name it: `offline/sentiment-lm@0a1b2c3d4e5f`."""
        return f"{self.name}@{self.checksum[:12]}"

    @property
    def reads_bos(self) -> bool:
        """Whether it was trained on texts after BOS."""
        return bool(self.settings.get("reads_bos", True))

    @property
    def is_whole(self) -> bool:
        """Whether it is a model of its own, in the folder `base`, for any base with the same
        vocabulary."""
        return bool(self.settings.get("whole"))

    @property
    def attributes(self) -> Mapping[str, tuple[str, ...]]:
        """Attribute -> its labels. Most guides have one."""
        several = self.settings.get("attributes", {self.attribute: self.labels})
        return {attribute: tuple(labels) for attribute, labels in several.items()}

    @property
    def weights(self) -> Path:
        """The file of the weights."""
        return self.path / WEIGHTS

    def check_base(self, model: str, loading: Loading = AS_USUAL) -> None:
        """Checks that the guide was trained on this model, or is a model of its own.

        Raises:
            ModelError: it was trained on another model, or the model does not exist.
        """
        if self.is_whole:  # vocabularies are compared when it is loaded
            return
        if model == self.base == OFFLINE_LM:  # which the package pins
            return
        resolved = resolve(model, loading)
        if resolved.revision != self.revision:
            raise ModelError(
                f"guide '{self.name}' was made for the base {self.base}@{self.revision[:12]}, and "
                f"the model is {resolved.label}; {_how_to_make(self.kind, self.attribute, model)}"
            )


@functools.lru_cache(maxsize=64)
def guide_named(name: str) -> Guide:
    """Returns the guide of this name: one that comes with the package, or a folder.

    Raises:
        ModelError: the guide does not exist, or its folder is damaged.
    """
    if name.startswith("offline/") and name not in SHIPPED:
        raise ModelError(f"there is no guide '{name}'; there are {', '.join(SHIPPED)}")
    if name in SHIPPED:
        guide = _read(_FOLDER / name.replace("/", os.sep), name)
        if guide.checksum != SHIPPED[name]:
            raise ModelError(
                f"guide '{name}' is damaged: its checksum begins {guide.checksum[:12]}, expected "
                f"{SHIPPED[name][:12]}; install levelfield again"
            )
        return guide
    path = local_folder(name)
    if path is None:
        raise ModelError(
            f"there is no guide folder {shown(name)}; `levelfield train guide` makes one"
        )
    return _read(path, path.name)


def shipped_guides() -> tuple[Guide, ...]:
    """Returns the guides that come with the package."""
    return tuple(map(guide_named, SHIPPED))


def guides_for(kind: GuideKind, names: str = "") -> tuple[Guide, ...]:
    """Returns all guides with these names; without names, the guides of a kind in the package.

    Args:
        names: as of `guide_for`.

    Raises:
        ModelError: a guide does not exist, or its folder is damaged.
    """
    if not names.strip():
        return tuple(guide for guide in shipped_guides() if guide.kind == kind)
    return tuple(guide_named(name) for part in names.split(",") if (name := part.strip()))


def guide_for(
    attribute: str,
    kind: GuideKind,
    names: str = "",
    base: str = OFFLINE_LM,
    loading: Loading = AS_USUAL,
) -> Guide:
    """Returns the guide that serves an attribute.

    Args:
        names: a guide's name or folder, or several with commas between them, each of another
            attribute; empty for those that come with the package.
        base: the model that the guide has to be of.
        loading: of the base.

    Raises:
        ModelError: there is none, it is of another kind or base, or its folder is damaged.
        UserError: two of the names serve the attribute.
    """
    guides = guides_for(kind, names)
    if not names.strip():
        served = {name: guide for guide in guides for name in guide.attributes}
        if base != OFFLINE_LM or attribute not in served:
            shipped = ", ".join(f"{g.name} for {g.attribute}" for g in guides) or "none"
            raise ModelError(
                f"no guide of kind {kind} for {shown(attribute)} on {base} comes with the package "
                f"(there is {shipped}{f', on {OFFLINE_LM}' if served else ''}); "
                f"{_how_to_make(kind, attribute, base)}"
            )
        return served[attribute]
    for guide in guides:
        if guide.kind != kind:
            raise ModelError(
                f"guide '{guide.name}' is of kind {guide.kind}; expected {kind}: "
                f"{_how_to_make(kind, guide.attribute, base)}"
            )
    serving = [guide for guide in guides if attribute in guide.attributes]
    if not serving:
        raise ModelError(
            f"no guide for {shown(attribute)} among "
            f"{', '.join(f'{g.name} (for {g.attribute})' for g in guides)}; "
            f"{_how_to_make(kind, attribute, base)}"
        )
    if len(serving) > 1:
        raise UserError(
            f"guides {serving[0].name} and {serving[1].name} are both for {attribute}; "
            "give one of them"
        )
    serving[0].check_base(base, loading)
    return serving[0]


def checksum(folder: Path) -> str:
    """Returns one checksum for the files of a guide that can change what it computes."""
    return files_digest(folder, (folder / ABOUT, folder / WEIGHTS))


def _how_to_make(kind: GuideKind, attribute: str, base: str) -> str:
    if kind == "encoder":
        return "make one of published files with `levelfield convert bolt`, and give guide=FOLDER"
    model = "" if base == OFFLINE_LM else f" --model {base}"
    return (
        f"make one with `levelfield train guide --technique {TRAINED_FOR[kind]}{model} --data FILE "
        f"--attribute {attribute} --out FOLDER` and give guide=FOLDER"
    )


def _read(path: Path, name: str) -> Guide:
    hint = "; expected a folder that `levelfield train guide` made"
    about = json_in(path, ABOUT, f"guide '{name}'", hint)
    if not isinstance(about, dict):
        raise ModelError(f"guide '{name}': {ABOUT} is not an object")
    several = about.get("attributes")
    if several is not None:  # attribute and labels are those of all together
        if not (isinstance(several, dict) and several and all(map(_are_labels, several.values()))):
            raise ModelError(
                f"guide '{name}': {ABOUT}: attributes is {shown(several)}; expected an object: "
                "attribute -> a list of at least two different names"
            )
        about["attribute"] = ",".join(several)
        about["labels"] = [label for labels in several.values() for label in labels]
    are_labels: Callable[[object], bool] = _are_labels
    if several:
        are_labels = bool
    elif about.get("kind") == "soft-prompt":  # which tells no labels apart
        are_labels = _is_label_or_labels
    for key, is_right, expected in (
        ("kind", get_args(GuideKind).__contains__, f"one of {', '.join(get_args(GuideKind))}"),
        ("attribute", _is_text, "a name"),
        ("labels", are_labels, "a list of at least two different names"),
        ("base", _is_text, "the name of a model"),
        ("revision", _is_text, "the revision of that model"),
    ):
        if not is_right(about.get(key)):
            raise ModelError(
                f"guide '{name}': {ABOUT}: {key} is {shown(about.get(key))}; expected {expected}"
            )
    for key, value in about.items():
        if not _is_finite(value):
            raise ModelError(f"guide '{name}': {ABOUT}: {key}: expected finite numbers")
    if not (path / WEIGHTS).is_file():
        raise ModelError(f"guide '{name}': {path} has no {WEIGHTS}; make the guide again")
    labels = tuple(about.pop("labels"))
    fields = {key: about.pop(key) for key in ("kind", "attribute", "base", "revision")}
    return Guide(name, path, labels=labels, checksum=checksum(path), settings=about, **fields)


def _is_finite(value: object) -> bool:
    """Returns whether all numbers in a JSON value are finite."""
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_label_or_labels(value: object) -> bool:
    return _are_labels(value) or (
        isinstance(value, list) and len(value) == 1 and _is_text(value[0])
    )


def _are_labels(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(map(_is_text, value))
        and len(set(value)) == len(value)
    )
