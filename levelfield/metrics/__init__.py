"""Metrics: samples in, scores out. Each is a class of plain options.

>>> from levelfield.metrics import KeywordsCoverage
>>> KeywordsCoverage().name
'keywords.coverage'

Classes are imported on first use, so that importing this package loads no model library.
"""

from __future__ import annotations

import importlib
from typing import Any

_FAMILIES = {
    "bartscore": (
        "BARTScoreF",
        "BARTScoreFromSource",
        "BARTScorePrecision",
        "BARTScoreRecall",
    ),
    "bertscore": ("BERTScoreReferences", "BERTScoreSource"),
    "cdm": ("CDMMomentum",),
    "control": (
        "ControlAverage",
        "ControlBalancedAccuracy",
        "ControlBoth",
        "ControlMajority",
        "ControlProbability",
    ),
    "ctrleval": (
        "CTRLEval",
        "CTRLEvalAttributeRelevance",
        "CTRLEvalCoherence",
        "CTRLEvalConsistency",
    ),
    "discriminator": ("DiscriminatorScore",),
    "diversity": ("Distinct1", "Distinct2", "Distinct3", "HDD1", "HDD2", "HDD3"),
    "embedding": ("CosineReferences", "CosineSource"),
    "fluency": ("CorpusPerplexity", "Perplexity", "SLOR"),
    "infilling_perplexity": ("InfillingPerplexity",),
    "keywords": (
        "KeywordsAll",
        "KeywordsAny",
        "KeywordsCov",
        "KeywordsCoverage",
        "KeywordsExtCov",
    ),
    "learned": ("BLEURTReferences", "BLEURTSource", "COMETReferences", "COMETSource"),
    "llm_judge": (
        "LLMJudgeCoherence",
        "LLMJudgeCommonsense",
        "LLMJudgeConsistency",
        "LLMJudgeFluency",
        "LLMJudgeOverall",
        "LLMJudgeRelevance",
    ),
    "meteor": ("METEORReferences", "METEORSource"),
    "movers": ("MoverReferences", "MoverSource", "WMDReferences", "WMDSource"),
    "overlap": (
        "BLEUReferences",
        "BLEUSource",
        "CHRFReferences",
        "CHRFSource",
        "CorpusBLEUReferences",
        "CorpusBLEUSource",
        "CorpusCHRFReferences",
        "CorpusCHRFSource",
    ),
    "questions": (
        "CustomQuestion",
        "QuestionsCoherence",
        "QuestionsEngagingness",
        "QuestionsGroundedness",
        "QuestionsNaturalness",
        "QuestionsUnderstandability",
    ),
    "rouge": (
        "ROUGE1References",
        "ROUGE1Source",
        "ROUGE2References",
        "ROUGE2Source",
        "ROUGELReferences",
        "ROUGELSource",
    ),
    "style": ("StyleDegenerate", "StylePerplexity"),
}
"""Module -> the classes that users name."""

_MODULES = {name: module for module, names in _FAMILIES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
