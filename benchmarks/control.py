"""Control by each technique on one base, and its price.

Four kinds of control, each continued by at most 30 tokens:

- sentiment: the 35 prompts of PPLM, positive and negative, with two seeds: 140 texts a technique;
- topic: the same prompts with each of four topics, one seed: 140 texts;
- both: every second prompt with each pair of a sentiment and a topic, one seed: 144 texts;
- keywords: the requests of examples/techniques/keywords.jsonl, one seed.

The base alone gets the same requests without their controls. The tables show means and the paired
test against the base over the prompts, Holm over the techniques of a table. The noise of a text
depends on its seed and its request together, so two seeds are two draws of every text, not a sample
of their own. For the figures, a technique with a strength is run at five strengths.

Judges read the continuation without the prompt. They are not trained on the data of the guides:
name folders of judges with --judges. Techniques that need a guide which does not ship take part
where --guides names one by the control and the kind; the others are left out.

    python benchmarks/control.py --out FOLDER [--controls sentiment,keywords]
        [--techniques dexperts,gedi] [--judges minilm,vader] [--docs docs/techniques]
        [--guides topic:class-lm=FOLDER] [--guides both:class-lm=offline/sentiment-lm,FOLDER]

Texts are kept in FOLDER, a file a technique and strength; what is there is not written again.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import control_page
import numpy as np

from levelfield import compare
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.datasets import prompts
from levelfield.generation.contract import Decoding, Request, Technique
from levelfield.generation.run import read_requests
from levelfield.generation.table import TECHNIQUES, make_technique, technique_class

KEYWORDS = Path(__file__).parents[1] / "examples/techniques/keywords.jsonl"
SENTIMENTS = ("positive", "negative")
TOPICS = ("World", "Sports", "Business", "Sci/Tech")
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Strengths of the figure, in the technique's default strengths."""
FREE = frozenset({"contrastive"})
"""Techniques that take any control and ignore it."""
ELSEWHERE = frozenset({"base", "chat", "combination", "ctrl", "copy", "rules", "rewriter"})
"""Techniques that are not measured: with models of their own, made of others, or rewriting."""
DECODING = Decoding(max_new_tokens=30)
PRICE = {
    "fluency.perplexity": "perplexity, smollm2-early",
    "fluency.infilling-perplexity": "perplexity, infill-expert",
    "diversity.distinct-1": "Distinct-1",
    "diversity.distinct-2": "Distinct-2",
}


@dataclass(frozen=True)
class Setting:
    """One kind of control.

    Attributes:
        requests: every technique gets these.
        effects: what is measured of the control, metric -> head of its column; the first is tested.
        seeds: of the texts.
    """

    requests: tuple[Request, ...]
    effects: Mapping[str, str]
    seeds: tuple[int, ...] = (1,)

    @property
    def headline(self) -> str:
        return next(iter(self.effects))

    @property
    def metrics(self) -> Mapping[str, str]:
        return {**self.effects, **PRICE}


def settings() -> dict[str, Setting]:
    """Returns every kind of control by name."""
    openings = prompts("pplm")
    combinations = itertools.product(range(0, len(openings), 2), SENTIMENTS, TOPICS)
    keywords = tuple(read_requests(KEYWORDS, lambda _: "")) if KEYWORDS.is_file() else ()
    return {
        "sentiment": Setting(
            label_requests(openings, "sentiment", SENTIMENTS),
            {"control.average": "control"},
            (1, 2),
        ),
        "topic": Setting(label_requests(openings, "topic", TOPICS), {"control.average": "control"}),
        "both": Setting(
            tuple(
                Request(f"{n}:{mood}:{topic}", openings[n], {"sentiment": mood, "topic": topic})
                for n, mood, topic in combinations
            ),
            {"control.both": "both right", "control.average": "mean of the two"},
        ),
        "keywords": Setting(
            keywords, {"keywords.coverage": "coverage", "keywords.all": "all keywords"}
        ),
    }


def label_requests(
    openings: Sequence[str], attribute: str, labels: Sequence[str]
) -> tuple[Request, ...]:
    return tuple(
        Request(f"{n}:{label}", prompt, {attribute: label})
        for n, prompt in enumerate(openings)
        for label in labels
    )


def texts(
    technique: Technique, setting: Setting, folder: Path, system: str, seed: int
) -> list[Sample]:
    """Returns the technique's texts of a seed, from the folder if they are there."""
    contents = "".join(f"{r.id} {r.prompt} {r.control}" for r in setting.requests)
    digest = hashlib.sha256((technique.signature + contents).encode()).hexdigest()[:12]
    path = folder / f"{technique.name}-{seed}-{digest}.jsonl"
    if not path.is_file():
        rows = [
            {**answer.to_dict(), "seed": seed}
            for answer in technique.generate(setting.requests, decoding=DECODING, seed=seed)
        ]
        beside = path.with_suffix(".tmp")
        beside.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        beside.replace(path)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Sample(
            id=f"{system}/{row['seed']}/{row['id']}",
            text=row["text"],
            prompt=row["prompt"],
            control={a: v if isinstance(v, str) else tuple(v) for a, v in row["control"].items()},
            system=system,
            dataset="pplm",
            extra={
                "passes": row["forward_passes"] / row["tokens"],
                "backward": row.get("backward_passes", 0) / row["tokens"],
                "tokens": row["tokens"],
                "seconds": row["seconds"],
            },
        )
        for row in rows
    ]


def measured(
    base: Sequence[Sample], samples: Sequence[Sample], setting: Setting, judges: str
) -> dict[str, Any]:
    """Returns the means of the base and of a system, and the test between them, by metric."""
    text_options = {f"{m}:text": "continuation" for m in setting.effects}
    judge_options = {f"{m}:judges": judges for m in setting.effects if m.startswith("control.")}
    result = compare(
        [*base, *samples],
        list(setting.metrics),
        options={
            **text_options,
            **judge_options,
            "fluency.perplexity:model": "offline/smollm2-early",
            "fluency.infilling-perplexity:model": "offline/infill-expert",
        },
    )
    rows: dict[str, Any] = {}
    for summary, comparison in result:
        means = {group.group: group.mean.value for group in summary.groups}
        rows[summary.metric] = {"p": comparison.p, "n": comparison.inputs, **means}
    for summary in result.summaries:
        rows.setdefault(summary.metric, {g.group: g.mean.value for g in summary.groups})
    return rows


def technique_for(
    name: str, control: str, guides: Mapping[tuple[str, str], str], **options: object
) -> Technique:
    """Returns a technique with batches for the rounds of requests, and guides for a control."""
    guide = guides.get((control, getattr(technique_class(name), "guide_kind", "")))
    guide_option = {"guide": guide} if guide else {}
    return make_technique(name, {"batch": len(prompts("pplm")), **guide_option, **options})


def takes_part(name: str, control: str, technique: Technique, setting: Setting) -> bool:
    """Returns whether a technique supports the control, and is not measured under another."""
    if name in FREE and control != "sentiment":
        return False
    return not any(technique.refusal(request.control) for request in setting.requests)


def strength_of(technique: Technique) -> float | None:
    """Returns the technique's strength, for CAT-PAW that of the inner one; None if it has none."""
    strength: float | None = getattr(technique, "strength", None)
    if strength is None and hasattr(technique, "inner"):
        return strength_of(make_technique(technique.inner))
    return strength


def points(
    name: str, setting: Setting, base: Sequence[Sample], out: Path, judges: str
) -> list[dict[str, float]]:
    """Returns control and price of a technique at five strengths; nothing if it has no strength."""
    default = strength_of(make_technique(name))
    if default is None or name in FREE:
        return []
    rows = []
    for strength in (factor * default for factor in FACTORS):
        technique = technique_for(name, "sentiment", {}, strength=strength)
        samples = [s for seed in setting.seeds for s in texts(technique, setting, out, name, seed)]
        means = measured(base, samples, setting, judges)
        rows.append(
            {
                "strength": strength,
                "control": means["control.average"][name],
                "perplexity": means["fluency.perplexity"][name],
                "base": means["control.average"]["base"],
            }
        )
        print(name, json.dumps(rows[-1]), flush=True)
    return rows


def measure(
    control: str, setting: Setting, names: Sequence[str], options: argparse.Namespace
) -> control_page.Results:
    """Measures a kind of control: a row a technique, and some of its texts."""
    folder = options.out / control
    folder.mkdir(parents=True, exist_ok=True)
    guides = guides_of(options.guides)
    base_technique = technique_for("base", control, {})
    base = [
        s for seed in setting.seeds for s in texts(base_technique, setting, folder, "base", seed)
    ]
    results = control_page.Results(control, setting.metrics, len(setting.requests), setting.seeds)
    results.examples["base"] = base
    for name in names:
        try:
            technique = technique_for(name, control, guides)
            if not takes_part(name, control, technique, setting):
                continue
        except UserError as error:
            print(f"{control}: {name}: {error}", flush=True)
            continue
        samples = [
            s for seed in setting.seeds for s in texts(technique, setting, folder, name, seed)
        ]
        row = measured(base, samples, setting, options.judges)
        row["strength"] = strength_of(technique) or ""
        for cost in ("passes", "backward"):
            row[cost] = float(np.mean([sample.extra[cost] for sample in samples]))
        results.rows[name] = row
        results.examples[name] = samples
        print(results.table(), flush=True)
        if control == "sentiment" and not options.no_figures:
            results.points[name] = points(name, setting, base, folder, options.judges)
    return results


def guides_of(words: Sequence[str]) -> dict[tuple[str, str], str]:
    """Returns `CONTROL:KIND=NAMES` words as (control, kind) -> names."""
    pairs = (word.partition("=")[::2] for word in words)
    return {(key.partition(":")[0], key.partition(":")[2]): names for key, names in pairs}


def main() -> None:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--controls", default=",".join(settings()))
    parser.add_argument("--techniques", default="")
    parser.add_argument("--judges", default="minilm,vader")
    parser.add_argument("--guides", action="append", default=[])
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--no-figures", action="store_true")
    options = parser.parse_args()
    names = [name for name in options.techniques.split(",") if name] or [
        name for name in TECHNIQUES if name not in ELSEWHERE
    ]
    controls = settings()
    results = [
        measure(control, controls[control], names, options)
        for control in options.controls.split(",")
    ]
    if options.docs:
        control_page.write(results, options.judges, DECODING.max_new_tokens, options.docs)


if __name__ == "__main__":
    main()
