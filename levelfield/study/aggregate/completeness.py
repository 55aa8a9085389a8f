"""What a study lacks, and what its reader must know besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from levelfield.core.scores import tie_note
from levelfield.scoring.seeds import seeds_in_words
from levelfield.study.aggregate.control import ControlData
from levelfield.study.observations import ALL


def incomplete_systems(control: ControlData) -> dict[str, str]:
    """Returns system -> what it lacks that any system has, in words."""
    measured: dict[str, set[tuple[str, str]]] = {system: set() for system in control.systems}
    for i, cell in enumerate(control.observations.cells):
        for o in control.observations.observed:
            for value in (ALL, *control.values):
                if o.cells.get((i, value)):
                    measured[cell.key.system].add((cell.key.dataset, value))
    everywhere = set().union(*measured.values())
    lacking = {s: _lacks(control, own, everywhere) for s, own in measured.items()}
    return {system: words for system, words in lacking.items() if words}


def _lacks(
    control: ControlData, own: set[tuple[str, str]], everywhere: set[tuple[str, str]]
) -> str:
    whole = [d for d in control.datasets if (d, ALL) in everywhere - own]
    elsewhere = {place for place in everywhere if place[0] not in whole}
    by_value: dict[str, list[str]] = {}
    for dataset, value in sorted(elsewhere - own):
        by_value.setdefault(value, []).append(dataset)
    words = [f"dataset {', '.join(whole)}"] if whole else []
    left = len(control.datasets) - len(whole)
    nowhere = [value for value, on in by_value.items() if len(on) == left]
    if nowhere:
        words.append(f"value {', '.join(nowhere)}")
    words += [f"{v} on {', '.join(on)}" for v, on in by_value.items() if v not in nowhere]
    return " and ".join(words)


def notes(control: ControlData, incomplete: Mapping[str, str]) -> list[str]:
    """Returns what a reader must know, in sentences."""
    cells = control.observations.cells
    sentences = [
        f"Incomplete: {system} has nothing for {lacks}; its means rest on other requests than "
        "those of the others, so its ranks say less"
        for system, lacks in incomplete.items()
    ]
    failed = [cell for cell in cells if cell.failure]
    if failed:
        first = failed[0]
        more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
        sentences.append(f"Without all of its texts: {first.key}: {first.failure}{more}")
    unmeasured = [cell for cell in cells if cell.samples and not (cell.scores or cell.groups)]
    if unmeasured:
        more = f"; and {len(unmeasured) - 1} more" if len(unmeasured) > 1 else ""
        sentences.append(
            f"Not measured yet: {unmeasured[0].key}{more}; `levelfield study run` does it"
        )
    missing = sum(len(cell.missing) for cell in cells)
    if missing:
        sentences.append(f"Missing: {missing:,} requests have no answer and count nowhere")
    if control.observations.many_values:
        sentences.append(f"Not split by the {control.observations.many_values:,} values asked for")
    if control.valueless:
        sentences.append(f"Left out, as no text has a value: {', '.join(control.valueless)}")
    tied: Counter[str] = Counter()
    for cell in cells:
        tied.update(cell.ties)
    for metric, n in tied.items():
        texts = sum(len(cell.samples) for cell in cells if metric in cell.scores)
        sentences.append(tie_note(metric, n, texts))
    if seeds := _seeds(control):
        sentences.append(seeds)
    return sentences


def _seeds(control: ControlData) -> str:
    """Returns how many seeds the systems have, and what that makes of claims; empty if there is
    nothing to claim."""
    seeds = control.seeds_of_systems
    if max(seeds.values()) == 1:
        return (
            "One seed: how far another seed would change the numbers is not known; claims are "
            "about this run"
        )
    if all(o.texts is None for o in control.observations.observed):
        return ""
    single = [system for system, n in seeds.items() if n == 1]
    of_run = f"; what is said of {', '.join(single)} holds for this run" if single else ""
    words = seeds_in_words(seeds)
    return f"{words}: intervals and tests take prompts and seeds as samples{of_run}"
