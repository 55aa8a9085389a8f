"""How texts are generated: the options of `levelfield generate` and `levelfield.generate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from levelfield.core.options import Options, group, option
from levelfield.generation.contract import Decoding
from levelfield.io.reading import ReadingOptions, pairs


def _labels(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns the words of `--control` as attribute -> labels."""
    return {name: tuple(value.split(",")) for name, value in pairs("--control", words).items()}


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(Options):
    """How texts are generated."""

    model: str | None = option(
        None,
        "Base model: a hub name or a folder.",
        metavar="NAME",
        otherwise="that of the technique, mostly offline/smollm2",
    )
    guide: str | None = option(
        None,
        "Guide: a name or a folder; several, with commas, for several attributes.",
        metavar="NAME",
        otherwise="the one that ships for the attribute",
    )
    options: Mapping[str, Any] = option(
        {},
        "Option of the technique, as `levelfield techniques NAME` lists them; may be given again.",
        flags=("--option", "-o"),
        metavar="NAME=VALUE",
    )
    control: Mapping[str, str | Sequence[str]] = option(
        {},
        "Control of requests that name none; with several labels, each prompt is used with each "
        "of them.",
        metavar="ATTR=LABEL[,LABEL]",
        read=_labels,
    )
    reading: ReadingOptions = group(
        ReadingOptions(),
        without=("source_file", "reference_files", "control", "system", "prompt", "ids"),
    )
    system: str = option(
        "",
        "Name under which the texts are compared.",
        metavar="NAME",
        otherwise="the technique",
    )
    seed: int = option(
        0,
        "Seed of sampling; a text depends on the seed and its id, not on its position.",
        least=0,
        metavar="N",
    )
    decoding: Decoding = group(Decoding())
