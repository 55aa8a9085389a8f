"""The judges that a user's words name, and how good those of the package are."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from levelfield.aspects import TEXT
from levelfield.core.errors import UserError
from levelfield.io.toml import read_toml
from levelfield.judges.file import Figure, read_judges, shipped_judges
from levelfield.judges.judge import Judge
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import attribute_of, resolve


def figures(name: str | None = None) -> tuple[Figure, ...]:
    """Returns how good the shipped judges are, as published and as measured."""
    return tuple(f for f in shipped_judges().figures if name in (None, f.judge))


def presets() -> tuple[str, ...]:
    return tuple(shipped_judges().presets)


def choose(choice: str, loading: Loading = AS_USUAL) -> tuple[Judge, ...]:
    """Returns the judges that a user's words name.

    Args:
        choice: separated by commas: a preset, a judge's name, a model's name or folder, or a TOML
            file with `[[judges]]`.
        loading: as for `resolve`; it is asked what models named on the spot are.

    Raises:
        UserError: there is no such judge; the file does not say judges; two have one name.
    """
    shipped = shipped_judges()
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
            file = read_judges(word, read_toml(path, word, kind="judges file"), path.parent)
            found = file.judges
            spellings += file.spellings
        elif "/" in word or (word and Path(word).expanduser().is_dir()):
            found = _on_the_spot(word, loading)
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


def _on_the_spot(model: str, loading: Loading) -> list[Judge]:
    """The judges that a model named without a file is."""
    resolved = resolve(model, loading)
    if resolved.kind == "classifier":
        return [Judge(resolved.name, attribute_of(resolved), model=model)]
    if resolved.kind == "encoder":
        ours = [j for j in shipped_judges().judges if j.name == "minilm"]
        return [replace(j, name=resolved.name, model=model) for j in ours]
    raise UserError(
        f"model '{model}' is a {resolved.kind} model: to have it judge, say what it is asked and "
        "what it answers in a TOML file: [[judges]] with name, attribute, model, "
        f'template = "{TEXT}" and words = {{positive = "…", negative = "…"}}'
    )
