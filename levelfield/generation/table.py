"""All techniques by name: what each controls, what it costs, and how it is made.

A new technique is a module and an entry here; a distribution of its own announces the entry in the
group `levelfield.techniques`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from levelfield.core.errors import UserError, models_needed
from levelfield.core.extensions import Extensible
from levelfield.core.options import choices, make, parsed, required
from levelfield.generation.contract import Technique
from levelfield.models.loading import Loading

Mechanism = Literal["none", "logits", "input", "gradient", "editing", "search"]


@dataclass(frozen=True)
class TechniqueEntry:
    """What is known of a technique without loading it.

    Attributes:
        name: as commands and study files have it.
        target: `MODULE:CLASS`.
        mechanism: where control enters.
        summary: what it does, in one sentence.
        controls: what it controls, in words.
        cost: forward passes a token, in words; F is one of the base model.
        paper: where it comes from.
    """

    name: str
    target: str
    mechanism: Mechanism
    summary: str
    controls: str
    cost: str
    paper: str


_ENTRIES = (
    TechniqueEntry(
        "base",
        "levelfield.generation.technique:UncontrolledBase",
        "none",
        "The base model alone: what every technique is compared with.",
        "nothing; takes any control and ignores it",
        "F",
        "",
    ),
    TechniqueEntry(
        "copy",
        "levelfield.generation.techniques.rules:CopySource",
        "none",
        "The source itself: rewrites nothing, and keeps all content.",
        "nothing; takes any control and ignores it",
        "none",
        "",
    ),
    TechniqueEntry(
        "rules",
        "levelfield.generation.techniques.rules:FormalityRules",
        "editing",
        "Rewrites a source by rules: contractions, capitals, marks, a table of words.",
        "formality: formal, informal",
        "none",
        "",
    ),
    TechniqueEntry(
        "rewriter",
        "levelfield.generation.techniques.rewriter.rewriter:Rewriter",
        "input",
        "An encoder-decoder that learnt to rewrite from pairs, behind the code of the style.",
        "the attribute that it was trained for",
        "F of the rewriter, once more for the source",
        "Lai et al. (2021); Mao (2021), section 2.2.2",
    ),
    TechniqueEntry(
        "cfg",
        "levelfield.generation.techniques.contrast:ClassifierFreeGuidance",
        "logits",
        "What a request for the control changes in the base, several times over.",
        "any attribute with one value, keywords, several attributes at once",
        "2 F",
        "Sanchez et al. (2023)",
    ),
    TechniqueEntry(
        "contrastive",
        "levelfield.generation.techniques.contrast:ContrastiveDecoding",
        "logits",
        "The base minus a smaller model, on the tokens that the base finds plausible.",
        "nothing; takes any control and ignores it",
        "F + F of the amateur",
        "Li et al. (2022)",
    ),
    TechniqueEntry(
        "cat-paw",
        "levelfield.generation.techniques.cat_paw:CATPAW",
        "logits",
        "Another technique, strong where the next word has to do with the control.",
        "what the inner technique does, where there is a bag of words: sentiment, PPLM's topics, a "
        "file",
        "as the inner technique",
        "Gu et al. (2022)",
    ),
    TechniqueEntry(
        "combination",
        "levelfield.generation.techniques.combination:Combination",
        "logits",
        "A weighted sum of models and techniques, as in base + 2 * (expert - anti).",
        "what its terms read",
        "F + that of its terms",
        "Dekoninck et al. (2024)",
    ),
    TechniqueEntry(
        "prompting",
        "levelfield.generation.techniques.prompting.prompting:Prompting",
        "input",
        "Instructions, and examples if wanted, before a text that is already begun.",
        "any attributes, in words; several at once",
        "F, after a pass over the instructions",
        "Brown et al. (2020)",
    ),
    TechniqueEntry(
        "chat",
        "levelfield.generation.techniques.prompting.chat:ChatPrompting",
        "input",
        "The instructions of `prompting`, sent to a chat model behind a server.",
        "any attributes, in words; several at once",
        "F of the server's model, after a pass over the instructions",
        "Brown et al. (2020)",
    ),
    TechniqueEntry(
        "ctrl",
        "levelfield.generation.techniques.ctrl:CTRL",
        "input",
        "A model that learnt texts behind codes of where they come from.",
        "sentiment, and topics that it has codes for; one at a time",
        "F of CTRL, 1.6 billion parameters",
        "Keskar et al. (2019)",
    ),
    TechniqueEntry(
        "ctrl-lite",
        "levelfield.generation.techniques.class_lm.class_guidance:CTRLLite",
        "input",
        "The base under an adapter that learnt texts behind the codes of their labels.",
        "an attribute with a guide of kind class-lm, one at a time",
        "F",
        "Keskar et al. (2019)",
    ),
    TechniqueEntry(
        "discup",
        "levelfield.generation.techniques.discup.discup:DisCup",
        "input",
        "The base behind a soft prompt that a discriminator taught to write texts of a label.",
        "attributes with a guide of kind soft-prompt: sentiment, and what you train",
        "F, after a pass over the soft prompt",
        "Zhang and Song (2022)",
    ),
    TechniqueEntry(
        "dexperts",
        "levelfield.generation.techniques.class_lm.class_guidance:DExperts",
        "logits",
        "The base plus what an expert says more than an anti-expert.",
        "attributes with a guide of kind class-lm, several at once; or with experts of your own",
        "F + F for each label",
        "Liu et al. (2021)",
    ),
    TechniqueEntry(
        "gedi",
        "levelfield.generation.techniques.class_lm.class_guidance:GeDi",
        "logits",
        "The base times what the text would say of its label, token by token, by Bayes' rule.",
        "attributes with a guide of kind class-lm, several at once",
        "F + F for each label",
        "Krause et al. (2021)",
    ),
    TechniqueEntry(
        "fudge",
        "levelfield.generation.techniques.fudge.fudge:FUDGE",
        "logits",
        "The base times what a small model expects the complete text to be, token by token.",
        "attributes with a guide of kind future: sentiment, and what you train; several at once",
        "F + a pass of a small model over up to 200 candidates",
        "Yang and Klein (2021)",
    ),
    TechniqueEntry(
        "pplm",
        "levelfield.generation.techniques.pplm.pplm:PPLM",
        "gradient",
        "The base behind keys and values that gradients push towards the control at every step.",
        "attributes with a guide of kind head: sentiment, and what you train; PPLM's topics and "
        "other bags of words; several at once",
        "2 F + m (F + B), with a head 2 F + m (2 F + 2 B); B goes back through the base",
        "Dathathri et al. (2020)",
    ),
    TechniqueEntry(
        "multictg",
        "levelfield.generation.techniques.latent.latent:MultiCTG",
        "input",
        "A prefix of keys and values, made from a point where the latents of the labels meet.",
        "attributes with a guide of kind latent; several at once that one guide has",
        "F",
        "Gu et al. (2022)",
    ),
    TechniqueEntry(
        "priorctg",
        "levelfield.generation.techniques.latent.latent:PriorCTG",
        "input",
        "A prefix of keys and values, made from a latent drawn from a density of the labels.",
        "attributes with a guide of kind latent; several at once that one guide has",
        "F",
        "Gu et al. (2023)",
    ),
    TechniqueEntry(
        "bolt",
        "levelfield.generation.techniques.bolt.bolt:BOLT",
        "gradient",
        "Greedy decoding under biases that gradients tune for each text.",
        "keywords, attributes with a guide of kind head, future or class-lm; all of them at once",
        "n (F + B) for n iterations, 8 or with keywords at most 100; n passes of the guide a text",
        "Liu et al. (2023)",
    ),
    TechniqueEntry(
        "constrained-beam",
        "levelfield.generation.techniques.constrained_beam:ConstrainedBeam",
        "search",
        "Likely texts of the base that have every keyword, by beam search.",
        "keywords, all of them always, in any order or in the given one",
        "F for each beam: 16 F",
        "Post and Vilar (2018)",
    ),
    TechniqueEntry(
        "cbart",
        "levelfield.generation.techniques.cbart.cbart:CBART",
        "editing",
        "Words inserted around keywords, and replaced, until nothing is left to mend.",
        "keywords: every text has all of them, in their order",
        "at most 10 passes of a small encoder-decoder a text, whatever its length",
        "He (2021)",
    ),
)

TECHNIQUES: Mapping[str, TechniqueEntry] = Extensible(
    "levelfield.techniques", TechniqueEntry, {entry.name: entry for entry in _ENTRIES}
)
"""Name -> entry, in the order in which they are listed; those of other distributions come last."""

CLASSES: Mapping[str, str] = {
    entry.target.partition(":")[2]: entry.target.partition(":")[0] for entry in _ENTRIES
}
"""Class -> module."""

TERMS: Mapping[str, str] = {
    "ModelTerm": "levelfield.generation.techniques.combination",
    "TechniqueTerm": "levelfield.generation.techniques.combination",
}
"""What techniques are combined of: class -> module."""


def technique_entry(name: str) -> TechniqueEntry:
    """What is known of a technique without loading it.

    Raises:
        UserError: there is no such technique; names those that are spelt alike.
    """
    if name not in TECHNIQUES:
        near = difflib.get_close_matches(name, TECHNIQUES, n=3, cutoff=0.5)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "`levelfield techniques` lists them"
        )
        raise UserError(f"there is no technique '{name}'; {hint}")
    return TECHNIQUES[name]


def technique_class(name: str) -> Callable[..., Technique]:
    """Returns the class behind a technique's name.

    Raises:
        UserError: there is no such technique.
    """
    module, _, attribute = technique_entry(name).target.partition(":")
    with models_needed():
        target: Callable[..., Technique] = getattr(importlib.import_module(module), attribute)
    return target


def make_technique(
    name: str, options: Mapping[str, object] = {}, loading: Loading | None = None
) -> Technique:
    """Returns a technique with options; loads no model.

    Args:
        options: by name, as the user wrote them or as values.
        loading: how models are loaded, in place of the default; options go before it.

    Raises:
        UserError: there is no such technique or option, or a value is none of the option's.

    >>> make_technique("base", {"batch": "8"}).batch  # doctest: +SKIP
    8
    """
    technique = technique_class(name)
    values = technique_options(name, options)
    if missing := required(choices(technique), values):
        raise UserError(f"technique '{name}' needs --option {missing[0]}=…")
    if loading is not None:
        values["loading"] = loading
    instance: Technique = make(technique, values)
    return instance


def technique_options(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Returns the values of a technique's options.

    Args:
        options: by name, as the user wrote them or as values.

    Raises:
        UserError: there is no such technique or option, or a value is none of the option's.
    """
    declared = choices(technique_class(name))
    for option in options:
        if option not in declared:
            near = difflib.get_close_matches(option, declared, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(declared)}"
            raise UserError(f"{name}: there is no option '{option}'; {hint}")
    return parsed(name, declared, options)
