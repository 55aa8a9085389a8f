"""A made-up run to show on a page: three systems, equal prompts, three metrics."""

from dataclasses import replace

import numpy as np

from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.gallery import Gallery
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.summary import summarise
from levelfield.show import ScorePage, ShownSample, ValuePart

PROMPTS = (
    "The bridge over the river",
    "My neighbour's bicycle",
    "On the last day of the fair",
    "The soup at the station",
    "A letter from the council",
    "The old cinema",
    "Behind the bakery",
    "The night train",
    "Our landlord",
    "The choir's first concert",
)
ENDINGS = (
    "was closed for repairs when we came. Nobody had put up a sign. We walked the long way round "
    "and missed the boat.",
    "turned out far better than anyone had hoped. People stayed until the lamps went out. Even the "
    "mayor was seen to smile.",
    "has been the talk of the street since spring. It is painted green now. The price of flour "
    "went up again in Lisbon.",
    "made us wait an hour in the rain. It was not worth it. I would rather have stayed at home "
    "with a book, and so would you.",
)
SYSTEMS = ("plain", "reranked", "steered-by-classifier")
METRICS = ("ctrleval.coherence", "ctrleval.consistency", "ctrleval.attribute-relevance")


BROKEN_WORDS = """which => [...document.querySelectorAll(which)].flatMap(cell => {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
  while (walker.nextNode()) {
    for (const word of walker.currentNode.data.matchAll(/[^\\s./_-]+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(r => r.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})"""
"""In a browser: the words in elements of a selector that are broken in the middle."""


def scores_of(metric, shown):
    """The scores of one metric for shown samples."""
    values = np.array([s.values.get(metric, np.nan) for s in shown], dtype=np.float64)
    return Scores(
        metric=metric,
        ids=tuple(s.sample.id for s in shown),
        values=values,
        undefined={s.sample.id: s.undefined[metric] for s in shown if metric in s.undefined},
        signature=f"{metric}|model:offline/minilm|weights:nisf|dtype:float32|v:0.1.0",
        direction="higher",
    )


def report_of(shown, metrics=METRICS, compare=True, **more):
    """A report over shown samples, summarised as a run would be."""
    tally = RunTable()
    for s in shown:
        tally.add([s.sample], [s.group])
    for metric in metrics:
        tally.add_scores(scores_of(metric, shown))
    settings = {"title": "Three ways to continue a sentence", "created": "12 May 2025"} | more
    return ScorePage(
        n=len(shown), summaries=summarise(tally, compare=compare), samples=shown, **settings
    )


def one(id="1", text="The old cinema is closed. It rains.", group="plain", values=None, **more):
    """One shown sample with the first metric's value 0.5, unless said otherwise."""
    parts = {k: more.pop(k) for k in ("undefined", "parts") if k in more}
    sample = Sample(id=id, text=text, **({"prompt": "The old cinema", "system": group} | more))
    return ShownSample(sample, group, {METRICS[0]: 0.5} if values is None else values, **parts)


def run(prompts=PROMPTS, seed=0):
    """2 samples of every system on every prompt, with parts; a few values are undefined."""
    rng = np.random.default_rng(seed)
    shown = []
    for p, prompt in enumerate(prompts):
        level = rng.normal(scale=0.3)
        for k, system in enumerate(SYSTEMS):
            for s, wanted in enumerate(("positive", "negative")):
                text = f"{prompt} {ENDINGS[(p + k + 2 * s) % len(ENDINGS)]}"
                id = f"{system[:2]}-{p:02d}-{s}"
                if (p, k, s) == (3, 0, 1):
                    text = ""
                shown.append(
                    ShownSample(
                        Sample(
                            id=id,
                            text=text,
                            prompt=prompt,
                            control={"sentiment": wanted},
                            system=system,
                            seed=s,
                        ),
                        system,
                        *_measured(text, prompt, wanted, level + 0.35 * (k == 2), rng),
                    )
                )
    return shown


def _measured(text, prompt, wanted, level, rng):
    if not text:
        return {}, dict.fromkeys(METRICS, "empty text"), {}
    sentences = [s.strip(" .") + "." for s in text.split(". ")]
    coherence = _parts(sentences, -2.6 + level + 0.4 * rng.normal(size=len(sentences)), rng)
    consistency = _parts(["prefix → rest", "rest → prefix"], -1.9 + 0.5 * rng.normal(size=2), rng)
    frames = ("It was {}.", "All in all {}!", "The writer sounds {}.", "In one word: {}.")
    words = ("good / bad", "glad / sad", "fine / awful", "warm / bitter", "kind / harsh")
    evaluators = [
        f"{side} “{frame.format('[gap]')}” {pair}"
        for frame in frames
        for pair in words
        for side in ("after", "before", "around")
    ]
    centre = 0.62 + 0.15 * level + (0.08 if wanted == "positive" else -0.08)
    agreement = np.clip(rng.normal(centre, 0.13, size=len(evaluators)), 0.02, 0.98)
    relevance = _parts(evaluators, agreement, rng, spread=2.2)
    parts = dict(zip(METRICS, (coherence, consistency, relevance), strict=True))
    values = {m: float(sum(p.weight * p.score for p in ps)) for m, ps in parts.items()}
    undefined = {}
    if prompt == PROMPTS[7] and level < 0.2:
        values[METRICS[1]] = float("nan")
        undefined[METRICS[1]] = "prompt is not a prefix of the text"
        del parts[METRICS[1]]
    return values, undefined, parts


def _parts(names, scores, rng, spread=0.7):
    weights = rng.lognormal(sigma=spread, size=len(names))
    weights /= weights.sum()
    return [
        ValuePart(n, float(s), float(w)) for n, s, w in zip(names, scores, weights, strict=True)
    ]


def wide_report(systems=16, metrics=7, prompts=40, sources=False, length=1, compare=False, parts=0):
    """A page as of a run of many systems and metrics, with what its gallery chose.

    Args:
        parts: of every value of the first metric.
    """
    rng = np.random.default_rng(1)
    names = [f"{SYSTEMS[i % 3]}-{i + 1}" for i in range(systems)]
    measured = [f"family-{i}.metric-with-a-name" for i in range(metrics)]
    gallery, everything = Gallery(), []
    for p in range(prompts):
        asked = f"{PROMPTS[p % 10]}, seen {p} times,"
        for k, system in enumerate(names):
            ending = " ".join(ENDINGS[(p + k + i) % len(ENDINGS)] for i in range(length))
            text = ending.replace("has", "had") if sources else f"{asked} {ending}"
            given = {"source": ENDINGS[p % 4] + str(p)} if sources else {"prompt": asked}
            values = dict(zip(measured, rng.normal(k / 9, 1, metrics).tolist(), strict=True))
            everything.append(
                one(f"{system}/{p}", text, system, values, **({"prompt": ""} | given))
            )
    scored = [scores_of(metric, everything) for metric in measured]
    gallery.add([s.sample for s in everything], [s.group for s in everything], scored)
    report = report_of(everything, measured, compare, files=["texts.jsonl"])
    evaluators = [f"after “It was [gap].” good / bad {i}" for i in range(parts)]
    samples = [
        replace(s, parts={measured[0]: _parts(evaluators, rng.random(parts), rng)})
        for s in gallery.shown()
    ]
    return replace(report, samples=samples, shown_how=gallery.how(), inputs=gallery.inputs())
