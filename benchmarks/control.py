"""What each technique controls on one base, and what it pays for it.

The 35 prompts of PPLM are continued by 30 tokens, positive and negative, with two seeds: 140 texts
a technique. The base alone is asked the same and knows nothing of the control. Beside the means
stands the paired test of control against the base over the prompts, Holm over the techniques; the
noise of a text depends on its seed and its request together, so two seeds are two draws of every
text and no sample of their own. For the figure, a technique with a strength is run at five
strengths.

Judges read the continuation without the prompt. They are not trained on the data of the guides:
name folders of judges with --judges, or take the shipped ones that learnt from no labelled review.

    python benchmarks/control.py --out FOLDER [--techniques dexperts,gedi] [--judges minilm,vader]
        [--docs docs/techniques]

Texts are kept in FOLDER, a file a technique and strength; what is there is not written again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from levelfield import compare
from levelfield.core.sample import Sample
from levelfield.datasets import prompts
from levelfield.stats.multiplicity import holm
from levelfield.systems.contract import Decoding, Request, Technique
from levelfield.systems.making import make_technique
from levelfield.systems.table import TECHNIQUES

LABELS = ("positive", "negative")
SEEDS = (1, 2)
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Strengths of the figure, in the technique's default strengths."""
FREE = frozenset({"contrastive"})
"""Techniques that take any control and ignore it."""
DECODING = Decoding(max_new_tokens=30)
METRICS = {
    "control.average": "control",
    "fluency.perplexity": "perplexity, smollm2-early",
    "fluency.infilling-perplexity": "perplexity, infill-expert",
    "diversity.distinct-1": "Distinct-1",
    "diversity.distinct-2": "Distinct-2",
}


def requests() -> list[Request]:
    return [
        Request(f"{n}:{label}", prompt, {"sentiment": label})
        for n, prompt in enumerate(prompts("pplm"))
        for label in LABELS
    ]


def texts(technique: Technique, folder: Path, system: str, seed: int) -> list[Sample]:
    """The technique's texts of a seed, from the folder if they are there."""
    digest = hashlib.sha256(technique.signature.encode()).hexdigest()[:12]
    path = folder / f"{technique.name}-{seed}-{digest}.jsonl"
    if not path.is_file():
        rows = [
            {**answer.to_dict(), "seed": seed}
            for answer in technique.generate(requests(), decoding=DECODING, seed=seed)
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
            control=row["control"],
            system=system,
            dataset="pplm",
            extra={"passes": row["forward_passes"] / row["tokens"]},
        )
        for row in rows
    ]


def measured(base: Sequence[Sample], samples: Sequence[Sample], judges: str) -> dict[str, Any]:
    """Means of the base and of a system, and the test between them, by metric."""
    result = compare(
        [*base, *samples],
        list(METRICS),
        options={
            "control.average:judges": judges,
            "control.average:text": "continuation",
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


def made(name: str, **options: float) -> Technique:
    """A technique in batches that fit two of the requests' rounds."""
    return make_technique(name, {"batch": len(prompts("pplm")), **options})


PAGE = """# What techniques control, and what they pay

All on one base, `offline/smollm2`, with one sampler (T = 1, top-p 0.9) and the guides that ship.
The 35 prompts of PPLM are continued by at most {tokens} tokens, positive and negative, with two
seeds: {texts} texts a technique, at its default strength.

{table}
- **control**: `control.average` of the continuation without the prompt, the mean over {judges}
  judges: the share of texts that a judge gives the wanted label. Chance is a little below 0.5: a
  judge that can't decide has not found the label. No judge learnt from the data of the guides
  (sentences of film reviews): {named}.
- **perplexity** under two models that wrote none of the texts: `offline/smollm2-early`, a small
  causal model of the base's family, and `offline/infill-expert`, an encoder-decoder.
- **Distinct-n**: the share of different words and pairs of words among all of a group's.
- **p of control**: paired test against the base over the prompts, Holm over the techniques.

`contrastive` controls nothing by itself; it stands here as the base's rival in fluency.
`combination`, `chat` and `ctrl` are not here: the first is whatever it is made of, the others
have models of their own. Each technique's page says how it works and what can go wrong.

## Control by strength

The base (strength 0) and a quarter, half, once, twice and four times the default strength: what
judges find, and perplexity under `offline/smollm2-early` on a logarithmic scale. Control rises with
strength until nearly every text has it; what it costs rises on.

{figures}
## One prompt

{examples}
Made by `python benchmarks/control.py --out FOLDER --docs docs/techniques`, with `--judges` as
above.
"""
JUDGES = {
    "minilm": "`minilm` (nearest description, nothing trained)",
    "vader": "`vader` (a word list)",
}


def page(
    out: str, judges: str, figures: Sequence[str], examples: Mapping[str, Sequence[Sample]]
) -> str:
    """The page of results."""
    names = judges.split(",")
    named = [
        JUDGES.get(name, "a linear head trained on sentences of Yelp reviews") for name in names
    ]
    prompt = "The chicken"
    lines = ["| technique | positive | negative |", "|---|---|---|"]
    for name, samples in examples.items():
        of_prompt = [sample for sample in samples if sample.prompt == prompt][: len(LABELS)]
        cells = [" ".join(s.text.replace("|", "/").split()) for s in of_prompt]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return PAGE.format(
        tokens=DECODING.max_new_tokens,
        texts=len(requests()) * len(SEEDS),
        table=out,
        judges=len(names),
        named="; ".join(named),
        figures="".join(
            f"![{name}: control and perplexity by strength]({name}.svg)\n\n" for name in figures
        ),
        examples="\n".join(lines) + "\n",
    )


def strength_of(technique: Technique) -> float | None:
    """The technique's strength, of CAT-PAW that of its inner technique; None if it has none."""
    strength: float | None = getattr(technique, "strength", None)
    if strength is None and hasattr(technique, "inner"):
        return strength_of(made(technique.inner))
    return strength


def strengths(name: str) -> list[float]:
    """The strengths of the figure; none if the technique has none, or controls nothing."""
    default = strength_of(made(name))
    return [] if default is None or name in FREE else [factor * default for factor in FACTORS]


def table(rows: Mapping[str, Mapping[str, Any]], base: Mapping[str, Any]) -> str:
    """Markdown: a row a technique, p of control adjusted over them."""
    names = list(rows)
    p = holm([rows[name]["control.average"]["p"] for name in names])
    head = " | ".join(METRICS.values())
    lines = [f"| technique | strength | passes a token | {head} | p of control |"]
    lines.append("|---" * (len(METRICS) + 4) + "|")
    lines.append(f"| base |  | 1.0 | {' | '.join(base[m] for m in METRICS)} |  |")
    for name, adjusted in zip(names, p, strict=True):
        row = rows[name]
        values = " | ".join(shown(m, row[m][name]) for m in METRICS)
        said = "< 0.001" if adjusted < 0.001 else f"{adjusted:.3f}"
        lines.append(f"| {name} | {row['strength']} | {row['passes']:.1f} | {values} | {said} |")
    return "\n".join(lines) + "\n"


def shown(metric: str, value: float) -> str:
    return f"{value:.1f}" if "perplexity" in metric else f"{value:.3f}"


def figure(name: str, points: Sequence[Mapping[str, Any]], base: float, folder: Path) -> None:
    """Control and perplexity by strength, as docs/techniques/NAME.svg."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(figsize=(4.6, 2.6), layout="constrained")
    x = [0.0, *(point["strength"] for point in points)]
    axes.plot(x, [base, *(point["control"] for point in points)], "o-", color="#1f5f8b")
    axes.set_xlabel("strength")
    axes.set_ylabel("control (share of judges)", color="#1f5f8b")
    axes.set_ylim(0.4, 1.0)
    axes.axhline(0.5, color="#bbbbbb", linewidth=0.7)
    other = axes.twinx()
    other.plot(x[1:], [point["perplexity"] for point in points], "s--", color="#b3541e")
    other.set_ylabel("perplexity, smollm2-early", color="#b3541e")
    other.set_yscale("log")
    axes.spines["top"].set_visible(False)
    other.spines["top"].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    drawing.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    pyplot.close(drawing)


def main() -> None:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--techniques", default="")
    parser.add_argument("--judges", default="minilm,vader")
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--no-figures", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in options.techniques.split(",") if name] or [
        name for name in TECHNIQUES if name not in ("base", "chat", "ctrl")
    ]
    base = [texts(made("base"), options.out, "base", seed) for seed in SEEDS]
    of_seeds = [s for of_seed in base for s in of_seed]
    rows: dict[str, dict[str, Any]] = {}
    examples: dict[str, Sequence[Sample]] = {"base": base[0]}
    figures: list[str] = []
    of_base: dict[str, str] = {}
    for name in names:
        samples = [s for seed in SEEDS for s in texts(made(name), options.out, name, seed)]
        row = measured(of_seeds, samples, options.judges)
        row["strength"] = strength_of(made(name)) or ""
        row["passes"] = float(np.mean([sample.extra["passes"] for sample in samples]))
        rows[name] = row
        examples[name] = samples
        of_base = {metric: shown(metric, row[metric]["base"]) for metric in METRICS}
        print(table(rows, of_base), flush=True)
        points = []
        for strength in () if options.no_figures else strengths(name):
            technique = made(name, strength=strength)
            samples = [s for seed in SEEDS for s in texts(technique, options.out, name, seed)]
            at = measured(of_seeds, samples, options.judges)
            points.append(
                {
                    "strength": strength,
                    "control": at["control.average"][name],
                    "perplexity": at["fluency.perplexity"][name],
                }
            )
            print(name, json.dumps(points[-1]), flush=True)
        if points and options.docs:
            figure(name, points, at["control.average"]["base"], options.docs)
            figures.append(name)
    if options.docs:
        text = page(table(rows, of_base), options.judges, figures, examples)
        (options.docs / "results.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
