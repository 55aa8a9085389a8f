"""The commands that wrote the old scores, and whose values the old cache holds."""

from __future__ import annotations

SCORED = (
    "odd.jsonl -m bleu.source -m rouge-l.references -m style.degenerate",
    "odd.jsonl -m ctrleval.coherence -m cosine.source",
    "letters.jsonl -m control.average -m control.majority -o judges=judges.toml",
    "odd.jsonl -m keywords.coverage -m keywords.ext-cov",
    "odd.jsonl -m fluency.perplexity -m fluency.slor --model models/gpt2 -o unigram=bos"
    " -o bos=true",
    "dialogue.jsonl -m cdm.momentum -o task=dialogue -o form=conditional"
    " -o amateur=models/gpt2 -o expert=models/gpt2-other -o bos=true",
    "rewrites.jsonl -m bleurt.source --model models/bleurt",
    "odd.jsonl -m control.probability -o judges=judges/textcnn,judges/linear",
)
"""After `score`, each in the folder of the golden records; number n wrote `old/scores/n.jsonl`."""

RENEWED = (
    "bleu.source",
    "rouge-l.references",
    "control.average",
    "control.majority",
    "control.probability",
    "keywords.coverage",
    "keywords.ext-cov",
    *(SPECIAL := ("ctrleval.coherence", "cosine.source", "bleurt.source")),
)
"""Metrics whose values and signatures have changed since: old values are not theirs. Those of
`SPECIAL` have changed only where a special token of the model is written in a text."""

WITH_SPECIAL_TOKENS = "gap-tokens"
"""Id of the sample with special tokens in its text."""
