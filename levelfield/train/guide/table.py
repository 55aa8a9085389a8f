"""The kinds of guides: the settings of each, and where it is trained."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import choices, parsed
from levelfield.models.guides import TRAINED_FOR, GuideKind
from levelfield.train.guide.settings import GuideSettings

_PACKAGE = "levelfield.generation.techniques"
_FOLDERS = [f.name for f in files(_PACKAGE).iterdir() if (f / "settings.py").is_file()]
_CLASSES = [importlib.import_module(f"{_PACKAGE}.{name}.settings").SETTINGS for name in _FOLDERS]

SETTINGS: Mapping[GuideKind, type[GuideSettings]] = {
    kind: cls for kind in TRAINED_FOR for cls in _CLASSES if cls.kind == kind
}
"""Kind of guide -> its settings, by the names of the options of `levelfield train guide`. Found by
walking the folders of techniques."""


def training_of(kind: GuideKind) -> Any:
    """Returns the `GuideTraining` of a kind, which is imported now."""
    folder = SETTINGS[kind].__module__.rpartition(".")[0]
    return importlib.import_module(f"{folder}.training").TRAINING


def settings_of(kind: GuideKind, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults of a kind, overridden by the settings of the user that are not None.

    Args:
        settings: values, or words as the user wrote them.

    Raises:
        UserError: a setting that the kind does not have, or a word that is not a value of it.
    """
    values = {name: value for name, value in settings.items() if value is not None}
    options = choices(SETTINGS[kind])
    if foreign := sorted(values.keys() - options.keys()):
        flag = {"lam": "lambda"}.get(foreign[0], foreign[0].replace("_", "-"))
        raise UserError(f"--{flag} is not an option of this kind of guide; leave it out")
    return SETTINGS[kind].of(**parsed("guide", options, values)).to_dict()
