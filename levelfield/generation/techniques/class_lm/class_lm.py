"""Class-conditional language models: log P(token | label, text so far) for a guide's labels.

One model serves all labels. It reads BOS, the code of a label, and the text; a code is the label
and a line break, in tokens of the base's vocabulary (Krause et al. 2021, "GeDi", section 3; Keskar
et al. 2019, "CTRL", section 3). A guide that is a whole model, as the authors of GeDi published
them, has codes of its own and reads no BOS before them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from levelfield.core.errors import ModelError
from levelfield.generation.guides import base_of, check_own_model, weights_on_base
from levelfield.generation.techniques.class_lm.adapters import AdaptedModel, Adapter
from levelfield.models.guides import Guide
from levelfield.models.loading import Loading
from levelfield.models.reading import reading
from levelfield.models.resolve import OFFLINE_LM, resolve_causal
from levelfield.models.torch.language_model import LanguageModel, open_language_model

KEPT = 8
"""How many of these a process keeps, those used last."""

Codes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class ClassLM:
    """A base model under the adapter of a guide of kind `class-lm`.

    The posterior of a label c given a text x of T tokens is softmax_c((α / T) log P(x | c) + b_c).

    Attributes:
        guide: what was learnt.
        lm: the base with the guide's adapter on, which shares the base's weights; it reads the code
            of a label between BOS and the text.
        codes: label -> tokens.
        scale: α.
        bias: label -> b; of a guide with opposites, of what the text is not and is, in this order.
        opposites: label -> the code of texts that do not have it, where texts are told apart label
            by label; empty where the other labels are that.
        scored: so many tokens at the end of a code count as the text's.
    """

    guide: Guide
    lm: LanguageModel
    codes: Codes
    scale: float
    bias: Mapping[str, float]
    opposites: Codes = field(default_factory=dict)
    scored: int = 0

    @property
    def attribute(self) -> str:
        """What the labels are values of."""
        return self.guide.attribute

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of the guide."""
        return self.guide.labels


@functools.lru_cache(maxsize=KEPT)
def class_lm(
    guide: Guide,
    model: str = OFFLINE_LM,
    loading: Loading = Loading(),  # noqa: B008
) -> ClassLM:
    """The class-conditional model of a guide on its base, loaded once a process.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    if guide.is_whole:
        return _whole(guide, base_of(guide, "class-lm", model, loading), loading)
    with weights_on_base(guide, "class-lm", model, loading) as (base, tensors):
        adapter = Adapter(base.model, **guide.settings["adapter"])
        adapter.load_state_dict(tensors)
        scale = float(guide.settings["scale"])
        bias = {label: float(guide.settings["bias"][label]) for label in guide.labels}
    lm = adapted(base, adapter.requires_grad_(False), guide.label)
    return ClassLM(guide, lm, codes_of(guide.labels, base), scale, bias)


def _whole(guide: Guide, base: LanguageModel, loading: Loading) -> ClassLM:
    """The class-conditional model of a guide that is a whole model."""
    resolved = resolve_causal(str(guide.path / guide.base), loading)
    check_own_model(guide, resolved)
    lm = open_language_model(resolved, loading)
    same = lm.tokens.digest == base.tokens.digest
    if not same or lm.tokens.vocabulary_size < base.tokens.vocabulary_size:
        raise ModelError(
            f"guide '{guide.name}' has another vocabulary than the base {base.label}; take a base "
            "with its tokenizer"
        )
    with reading(guide.name):
        settings = guide.settings
        codes, opposites = (
            {
                label: tuple(id for word in words for id in lm.ids(word))
                for label, words in of.items()
            }
            for of in (settings["codes"], settings.get("opposites", {}))
        )
        scale, scored = float(settings["scale"]), int(settings["scored"])
        bias = {label: float(b) for label, b in settings["bias"].items()}
    lm = replace(lm, label=guide.label, reads_bos=False)
    return ClassLM(guide, lm, codes, scale, bias, opposites, scored)


def adapted(base: LanguageModel, adapter: Adapter, label: str) -> LanguageModel:
    """A base under an adapter."""
    model = AdaptedModel(base.model, adapter)
    return LanguageModel(model, base.tokenizer, f"{base.label}+{label}", base.tokens, base.ends)


def codes_of(labels: Sequence[str], base: LanguageModel) -> Codes:
    """The tokens of each label's code: the label and a line break, after which any text may begin.

    Raises:
        ModelError: two labels are the same tokens.
    """
    codes = {label: tuple(base.ids(f"{label}\n")) for label in labels}
    if len(set(codes.values())) < len(codes):
        raise ModelError(
            f"labels {', '.join(labels)}: some are the same tokens to {base.label}; name them "
            "otherwise"
        )
    return codes
