"""The published results of the level-playing-field study (Lorandi and Belz, 2026).

A run is one folder, `<system>-<dataset>-<control>-<prompting>-len<N>-<seed>`: one system with one
kind of control on the prompts of one dataset under one seed. It has the study's own scores and,
for some runs, the texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.paths import user_path
from levelfield.core.sample import Control, Sample
from levelfield.datasets.loading import Parts, paths, records, wrong
from levelfield.datasets.prompts import prompts
from levelfield.io.json_input import read_json

CONTROLS = ("sentiment", "topic", "keywords", "multiple")
DATASETS = ("pplm_prompts", "owt_neutral_prompts", "cloze_2018_test", "sts_benchmark_test")

_FOLDER = re.compile(
    rf"(?P<system>.+)-(?P<dataset>{'|'.join(DATASETS)})-(?P<control>{'|'.join(CONTROLS)})"
    r"-(?P<prompting>\w+)-len(?P<length>\d+)-(?P<seed>\d+)"
)
_ASKED = 'starting with "'
_PPLM_PROMPTS = {
    **{f"PPLM-Bow_{n}": prompt for n, prompt in enumerate(prompts("topic"))},
    **{f"PPLM-Discrim_{n}": prompt for n, prompt in enumerate(prompts("sentiment"))},
}


@dataclass(frozen=True)
class PublishedRun:
    """One run of the study with its published results.

    Attributes:
        name: of its folder.
        system: as the folder has it, e.g. `gedi`, `Llama-2-70b-chat-hf`.
        dataset: `pplm_prompts`, `owt_neutral_prompts`, `cloze_2018_test`, `sts_benchmark_test`.
        control: `sentiment`, `topic`, `keywords` or `multiple` (sentiment and topic).
        prompting: `zero_shot` or `few_shot` of an instructed model; empty for all others.
        length: the most tokens a text might have.
        seed: 3443, 789 or 9817.
        results: the run's evaluation file as it is: judge or measure -> label or `overall` ->
            measure -> value.
    """

    name: str
    system: str
    dataset: str
    control: str
    prompting: str
    length: int
    seed: int
    results: Mapping[str, Any]

    @property
    def technique(self) -> str:
        """What the study compares: the system, and how it was prompted if that varies."""
        return f"{self.system} {self.prompting}" if self.prompting else self.system


def runs(
    folder: Path | str | None = None, *, control: str | None = None, here: bool = False
) -> list[PublishedRun]:
    """Returns the published results, one record a run, sorted by name.

    Args:
        folder: of the set, with `results/` in it; whatever runs are there are read as they are.
            None: the files of the registry, fetched and verified.
        control: only runs with this kind of control.
        here: with no folder, only what is on this machine already.

    Raises:
        UserError: there are none, they can't be obtained, or a file is not one of the study's.
    """
    if control is not None and control not in CONTROLS:
        raise UserError(f"no kind of control '{control}'; there are {', '.join(CONTROLS)}")
    chosen = (control,) if control else CONTROLS
    if folder is None:
        parts = [f"{kind}-results" for kind in chosen]
        files = list(paths("lpf", part=parts, here=here).values())
    else:
        where = user_path(folder) / "results"
        files = [p for kind in chosen for p in where.glob(f"{kind}/*/evaluation_results_*.json")]
        if not files:
            raise UserError(f"{where}: there is no run of {', '.join(chosen)}")
    # a folder may have further files, with partial results
    whole = [path for path in files if path.stem == f"evaluation_results_{path.parent.name}"]
    return sorted(map(run_of, whole), key=lambda run: run.name)


def run_of(path: Path) -> PublishedRun:
    """Returns the run that an evaluation file belongs to, with its results.

    Raises:
        UserError: the file is not JSON, or its folder is not named as the study's are.
    """
    try:
        results = read_json(path)
    except ValueError as error:
        raise wrong(path, 1, f"not JSON: {error}") from error
    return replace(named(path), results=results)


def named(path: Path) -> PublishedRun:
    """Returns the run that the name of a file's folder describes; without results.

    Raises:
        UserError: the folder is not named as the study's are.
    """
    name = path.parent.name
    match = _FOLDER.fullmatch(name)
    if match is None:
        raise UserError(
            f"{path.parent}: expected a folder named "
            "<system>-<dataset>-<control>-<prompting>-len<N>-<seed>"
        )
    fields: dict[str, Any] = match.groupdict()
    fields["prompting"] = "" if fields["prompting"] == "None" else fields["prompting"]
    fields |= {"length": int(fields["length"]), "seed": int(fields["seed"])}
    return PublishedRun(name=name, **fields, results={})


def texts(parts: Parts) -> list[Sample]:
    """Returns the generated texts of all runs in these parts, with what they were asked for."""
    return [
        sample
        for files in parts.values()
        for path in sorted(files.values())
        if path.name.startswith("processed_")
        for sample in texts_of(path)
    ]


def texts_of(path: Path) -> list[Sample]:
    """Returns the texts of one run, from its `processed_*.csv`.

    Raises:
        UserError: it is not one of the study's files.
    """
    run = named(path)
    samples = []
    fields = ("id", "original_id", "prompt", "control_attribute_value", "text")
    for n, row in enumerate(records(path, *fields), 1):
        prefix = _prefix(run, row["original_id"], row["prompt"])
        extra: dict[str, Any] = {
            "request": row["id"],
            "original_id": row["original_id"],
            "control": run.control,
        }
        if prefix != row["prompt"]:
            extra["input"] = row["prompt"]
        samples.append(
            Sample(
                id=f"{run.name}:{n}",
                text=row["text"],
                prompt=prefix,
                control=wanted(run.control, row["control_attribute_value"]),
                system=run.technique,
                dataset=run.dataset,
                seed=run.seed,
                extra=extra,
            )
        )
    return samples


def wanted(kind: str, value: str) -> Control:
    """Returns the values of a control in the study's files, which join several with `#`."""
    values = tuple(value.split("#"))
    match kind:
        case "multiple" if len(values) == 2:
            return {"sentiment": values[0], "topic": values[1]}
        case "keywords":
            return {"keywords": values}
    return {kind: value}


def _prefix(run: PublishedRun, original_id: str, input: str) -> str:
    """Returns the content prefix in what the system was given.

    Instructed models read it in quotes, after any examples; PPLM's input begins with the
    names of its attributes and a colon, CTRL's with a control code.
    """
    if prompt := _PPLM_PROMPTS.get(original_id):
        return prompt
    if run.prompting:
        request = input.rpartition(_ASKED)[2]
        quoted, mark, _ = request.partition('" with a ')
        return quoted if mark else input
    if run.system == "pplm":
        return input.partition(":")[2] or input
    if run.system == "ctrl":
        return input.partition(" ")[2] or input
    return input
