"""The page of `benchmarks/control.py`: a table a kind of control, figures, and some texts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levelfield.core.sample import Sample
from levelfield.stats.multiplicity import holm

TECHNIQUES = Path(__file__).parents[1] / "levelfield" / "generation" / "techniques"
JUDGES = {
    "minilm": "`minilm` (nearest description, nothing trained)",
    "vader": "`vader` (a word list; sentiment only)",
    "yelp": "a linear head trained on sentences of Yelp reviews (sentiment)",
    "ag": "a linear head trained on the test part of AG News (topic)",
}
"""Presets, and folders of judges by their last name."""
SHOWN = {"sentiment": "The chicken", "topic": "The chicken", "both": "The lake", "keywords": ""}
"""Control -> the prompt whose texts are shown; empty for the first."""
HEADS = {
    "sentiment": "Sentiment",
    "topic": "Topic",
    "both": "Sentiment and topic at once",
    "keywords": "Keywords",
}

PAGE = """# What techniques control, and what they pay

All on one base, `offline/smollm2`, with one sampler (T = 1, top-p 0.9) and default strengths. Texts
continue their prompts by at most {tokens} tokens. The base is asked the same and knows nothing of
the control.

{sections}
## How to read the tables

- **control**: `control.average` of the continuation without the prompt, the mean over judges: the
  share of texts that a judge gives the wanted label. Chance is a little below 1 / labels: a judge
  that can't decide has not found the label. **both right** is `control.both`: sentiment and topic,
  each by majority of its judges. The judges: {judges}. None learnt from the data of the guides.
- **coverage** and **all keywords**: `keywords.coverage` and `keywords.all` of the continuation.
- **perplexity** under two models that wrote none of the texts: `offline/smollm2-early`, a small
  causal model of the base's family, and `offline/infill-expert`, an encoder-decoder.
- **Distinct-n**: the share of different words and pairs of words among all of a group's.
- **F, B a token**: rows sent forward through any model, and rows that gradients went back through.
- **p**: paired test against the base over the prompts, of the first column of control, Holm over
  the techniques of the table.

`contrastive` controls nothing by itself; it stands here as the base's rival in fluency.
`combination`, `chat` and `ctrl` are not here: the first is whatever it is made of, the others
have models of their own. Each technique's page says how it works and what can go wrong.

## Control of sentiment by strength

The base (strength 0) and a quarter, half, once, twice and four times the default strength: what
judges find, and perplexity under `offline/smollm2-early` on a logarithmic scale. Control rises with
strength until nearly every text has it; what it costs rises on.

{figures}
Made by `python benchmarks/control.py --out FOLDER --docs docs/techniques`, with `--judges` and
`--guides` as above.
"""


@dataclass
class Results:
    """What was measured of one kind of control.

    Attributes:
        metrics: metric -> head of its column, the first is tested.
        requests: how many.
        rows: technique -> means and tests by metric, `strength`, `passes` and `backward` a token.
        examples: technique -> texts.
        points: technique -> what it controls at several strengths.
    """

    control: str
    metrics: Mapping[str, str]
    requests: int
    seeds: Sequence[int]
    rows: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, Sequence[Sample]] = field(default_factory=dict)
    points: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def table(self) -> str:
        """Returns Markdown: a row a technique, p adjusted over them."""
        headline = next(iter(self.metrics))
        p = holm([row[headline]["p"] for row in self.rows.values()])
        lines = [
            f"| technique | strength | F, B a token | {' | '.join(self.metrics.values())} | p |",
            "|---" * (len(self.metrics) + 4) + "|",
        ]
        base_row = next(iter(self.rows.values()))
        values = " | ".join(shown(m, base_row[m]["base"]) for m in self.metrics)
        lines.append(f"| base |  | 1.0 | {values} |  |")
        for (name, row), adjusted in zip(self.rows.items(), p, strict=True):
            values = " | ".join(shown(m, row[m][name]) for m in self.metrics)
            backward = f", {row['backward']:.1f}" if row["backward"] else ""
            small = "< 0.001" if adjusted < 0.001 else f"{adjusted:.3f}"
            cost = f"{row['passes']:.1f}{backward}"
            lines.append(f"| {name} | {row['strength']} | {cost} | {values} | {small} |")
        return "\n".join(lines) + "\n"

    def texts(self) -> str:
        """Returns Markdown: texts of one prompt, a column for each of its first two controls."""
        base = self.examples["base"]
        prompt = SHOWN[self.control] or base[0].prompt
        alike = [sample for sample in base if sample.prompt == prompt][:2]
        ids = [sample.id.partition("/")[2] for sample in alike]
        heads = [", ".join(map(words, sample.control.values())) for sample in alike]
        lines = [f"| technique | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        for name, samples in self.examples.items():
            by_id = {sample.id.partition("/")[2]: sample.text for sample in samples}
            cells = [" ".join(by_id[id].replace("|", "/").split()) for id in ids]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"

    def section(self) -> str:
        """Returns the section of this kind of control."""
        seeds = "one seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        n = self.requests * len(self.seeds)
        return (
            f"## {HEADS[self.control]}\n\n{self.requests} requests, {seeds}: {n} texts a technique."
            f"\n\n{self.table()}\nTexts for one prompt:\n\n{self.texts()}"
        )


def words(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def shown(metric: str, value: float) -> str:
    return f"{value:.1f}" if "perplexity" in metric else f"{value:.3f}"


def figure(name: str, points: Sequence[Mapping[str, float]], file: Path) -> None:
    """Draws control and perplexity by strength, in the folder of the technique."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(figsize=(4.6, 2.6), layout="constrained")
    x = [0.0, *(point["strength"] for point in points)]
    control = [points[0]["base"], *(point["control"] for point in points)]
    axes.plot(x, control, "o-", color="#1f5f8b")
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
    drawing.savefig(file, metadata={"Date": None, "Creator": None})
    pyplot.close(drawing)


def write(results: Sequence[Results], judges: str, tokens: int, folder: Path) -> None:
    """Writes the page, and a figure for each technique with a strength."""
    figures = []
    for name, points in ((n, p) for result in results for n, p in result.points.items() if p):
        file = TECHNIQUES / name.replace("-", "_") / f"{name}.svg"
        figure(name, points, file)
        figures.append(
            f"![{name}: control and perplexity by strength]({os.path.relpath(file, folder)})\n\n"
        )
    named = [JUDGES.get(Path(name).name, f"`{name}`") for name in judges.split(",")]
    text = PAGE.format(
        tokens=tokens,
        sections="\n".join(result.section() for result in results),
        judges="; ".join(named),
        figures="".join(figures),
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.md").write_text(text, encoding="utf-8")
