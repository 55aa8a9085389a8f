"""CTRL: a language model with codes for where its texts come from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import option
from levelfield.core.sample import Control, Wanted, single_value, wanted_name
from levelfield.generation.contract import Answer, Decoding, Request
from levelfield.generation.sampling import Continuation
from levelfield.generation.table import controlled_by
from levelfield.generation.technique import LocalTechnique, Prompted
from levelfield.io.problems import listed
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import resolve_causal
from levelfield.models.torch.language_model import LanguageModel, open_language_model

FORBIDDEN = ("<unk>", "Sco@@")
"""Tokens that the authors never let CTRL write."""

_TOPICS: Mapping[str, str] = {
    "world": "Politics",
    "sports": "Fitness",
    "sport": "Fitness",
    "business": "Finance",
    "sci/tech": "Technologies",
    "science/technology": "Technologies",
    "technology": "Technologies",
    "computers": "Computing",
    "religion": "Christianity",
}
_SENTIMENTS: Mapping[str, str] = {
    "positive": "Reviews Rating: 5.0",
    "negative": "Reviews Rating: 1.0",
}


@functools.cache
def control_codes() -> Mapping[str, Mapping[str, str]]:
    """Attribute -> value in lower case -> the code that precedes a text. Any code of CTRL's
    is a topic by its own name."""
    from transformers.models.ctrl.tokenization_ctrl import CONTROL_CODES

    return {
        "sentiment": _SENTIMENTS,
        "topic": {**_TOPICS, **{code.casefold(): code for code in CONTROL_CODES}},
    }


@dataclass(frozen=True, kw_only=True)
class CTRL(LocalTechnique):
    """p(x_t | code, x_<t) of CTRL, a model of 1.6 billion parameters trained on texts after codes
    for their source. Keskar et al. (2019), "CTRL: A Conditional Transformer Language Model for
    Controllable Generation", section 3.

    Controls one attribute with one value: sentiment, by the ratings of reviews, and topic, by the
    closest codes (`control_codes`). The tokens of a code precede the prompt and are not part
    of the text. `<unk>` and `Sco@@` have probability 0.

    Attributes:
        paper_decoding: of the paper, section 4.1: greedy with a repetition penalty of 1.2.

    Raises:
        UserError: there is no such code, or the model is not a CTRL.
    """

    name: ClassVar[str] = "ctrl"
    paper_decoding: ClassVar[Decoding] = Decoding(greedy=True, repetition_penalty=1.2)
    model: str = option("Salesforce/ctrl", "CTRL model: a hub name or a folder.", metavar="NAME")
    code: str = option(
        "",
        "Code before the texts of requests without a control; it begins with one of CTRL's codes, "
        "such as Horror or Reviews Rating: 3.0.",
        otherwise="such requests are refused",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        names = set(control_codes()["topic"].values())
        if self.code and self.code.partition(" ")[0] not in names:
            raise UserError(
                f"code is '{self.code:.40}'; expected one that begins with "
                f"{listed(sorted(names), most=60)}"
            )

    @property
    def choices(self) -> Mapping[str, str]:
        return {"code": self.code or "none"}

    @property
    def _names_bos(self) -> bool:
        return self.bos is not False  # a code precedes every text, whatever the tokenizer puts

    @property
    def base(self) -> LanguageModel:
        """The model, loaded at first use."""
        return ctrl_model(self.model, self.loading)

    @property
    def uncontrolled(self) -> LocalTechnique:
        """Nothing.

        Raises:
            UserError: the model needs a code.
        """
        raise UserError(
            f"{self.name} reads a code before every text, so there is no base without control"
        )

    def refusal(self, control: Control) -> str:
        """Returns why a control is not supported; empty if it is."""
        if len(control) > 1:
            return f"{self.name}: accepts one attribute at a time; there are {', '.join(control)}"
        if not control:
            return "" if self.code else f"{self.name}: requires a control, or code=CODE without one"
        ((attribute, value),) = control.items()
        codes = control_codes()
        if attribute not in codes:
            return (
                f"{self.name}: has codes for {' and '.join(codes)}, but none for {attribute}; "
                f"{controlled_by(attribute)}"
            )
        if not _code(attribute, value):
            return (
                f"{self.name}: has no code for {attribute} '{wanted_name(value)}'; there are "
                f"{listed(codes[attribute])}"
            )
        return ""

    def _start(self, request: Request) -> list[int]:
        """Returns the code's tokens: no other token precedes a text of CTRL's."""
        code = self.code
        for attribute, value in request.control.items():
            code = _code(attribute, value)
        base = self.base
        first = code.partition(" ")[0]
        if base.tokens.single(first) is None or base.tokenizer.unk_token_id in base.ids(code):
            raise ModelError(f"model '{self.model}' has no code '{code}' in its vocabulary")
        return base.ids(code)

    def _answer(self, prompted: Prompted, continuation: Continuation) -> Answer:
        answer = super()._answer(prompted, continuation)
        written = answer.continuation.removesuffix("@@")  # a word that the budget cuts in two
        # the tokenizer puts a blank between any two words, also where the prompt has white space
        if not answer.prompt or answer.prompt[-1].isspace():
            written = written.lstrip()
        return dataclasses.replace(answer, continuation=written, text=answer.prompt + written)


def _code(attribute: str, setting: Wanted) -> str:
    """Returns the code for a value; empty if there is none."""
    value = single_value(setting)
    return control_codes()[attribute].get(value.casefold(), "") if isinstance(value, str) else ""


@functools.lru_cache(maxsize=1)
def ctrl_model(name: str, loading: Loading = AS_USUAL) -> LanguageModel:
    """The CTRL of this name, loaded once a process, without the tokens that it must not write.

    CTRL's tokenizer has neither BOS nor EOS, since a code precedes every text; what pads rows and
    is never read is `<unk>`.

    Raises:
        ModelError: there is no such model.
        UserError: it is not a CTRL.
    """
    resolved = resolve_causal(name, loading)
    if resolved.model_type != "ctrl":
        raise UserError(
            f"model '{name}' is a {resolved.model_type}, not a CTRL, so it has no codes; technique "
            "ctrl-lite gives codes to any base"
        )
    ctrl = open_language_model(resolved, loading, first="<unk>")
    forbidden = [id for token, id in ctrl.tokenizer.get_vocab().items() if token in FORBIDDEN]
    with torch.no_grad():
        ctrl.model.lm_head.bias[forbidden] = -torch.inf
    return ctrl
