"""Class-conditional language models: log P(token | label, text so far) for a guide's labels.

One model serves all labels. It reads BOS, the code of a label, and the text; a code is the label
and a line break, in tokens of the base's vocabulary (Krause et al. 2021, "GeDi", section 3; Keskar
et al. 2019, "CTRL", section 3). A guide that is a whole model, as the authors of GeDi published
them, has codes of its own and reads no BOS before them.

y = W x + (α / r) B A x on the linear layers of a model's upper layers (Hu et al. 2022, "LoRA:
Low-Rank Adaptation of Large Language Models", section 4.1). The base's weights stay as they are,
and it computes what it did unless it is called through an adapter.
"""

from __future__ import annotations

import contextlib
import functools
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from levelfield.core.errors import ModelError
from levelfield.generation.guides import (
    KEPT,
    GuidedModel,
    base_of,
    check_own_model,
    weights_on_base,
)
from levelfield.models.guides import Guide
from levelfield.models.loading import AS_USUAL, Loading, reading
from levelfield.models.resolve import OFFLINE_LM, resolve_causal
from levelfield.models.torch.decoder_layers import decoder_layers
from levelfield.models.torch.language_model import LanguageModel, open_language_model
from levelfield.models.torch.lora import write_lora

_ACTIVE: ContextVar[int | None] = ContextVar("active adapter", default=None)
"""Which adapter is on in this thread; hooks of others leave outputs alone."""


class Adapter(torch.nn.Module):
    """Matrices A: (r, in) and B: (out, r) for linear layers of a model; B begins at 0.

    A layer's output gets (α / r) B A x where the adapter is on. That is so per thread and call, so
    the base and several adapters run beside each other.

    Args:
        base: a causal model of `transformers`.
        layers: number of upper layers whose linear layers all get a pair; at most all layers.
        rank: r.
        alpha: α.
        seed: of A, which is normal with variance 1 / in.

    Raises:
        ModelError: the model has no list of layers, or no linear layers in them.
    """

    def __init__(self, base: Any, *, layers: int, rank: int, alpha: float, seed: int = 0) -> None:
        super().__init__()
        self._scale = alpha / rank
        self.down, self.up = torch.nn.ParameterDict(), torch.nn.ParameterDict()
        generator = torch.Generator().manual_seed(seed)
        for path, module in linear_layers(base, layers).items():
            name = path.replace(".", "/")  # no name of a parameter has a dot
            inputs, outputs = _shape(module)
            A = torch.randn(rank, inputs, generator=generator) / inputs**0.5
            weight = module.weight
            self.down[name] = torch.nn.Parameter(A.to(weight))
            self.up[name] = torch.nn.Parameter(weight.new_zeros(outputs, rank))
            hook = functools.partial(_add, weakref.ref(self), name)
            weakref.finalize(self, module.register_forward_hook(hook).remove)

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """In this context and thread, the base computes with the adapter."""
        token = _ACTIVE.set(id(self))
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    def update(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """(α / r) B A x of a layer: (…, in) -> (…, out)."""
        linear = torch.nn.functional.linear
        return linear(linear(x, self.down[name]), self.up[name]) * self._scale


def _add(
    adapter: weakref.ref[Adapter], name: str, _: Any, x: tuple[torch.Tensor], y: torch.Tensor
) -> torch.Tensor | None:
    active = adapter()
    if active is None or _ACTIVE.get() != id(active):
        return None
    return y + active.update(name, x[0])


class AdaptedModel(GuidedModel):
    """A model with an adapter on, called like the model itself."""

    def __init__(self, base: Any, adapter: Adapter) -> None:
        super().__init__(base)
        self._adapter = adapter

    @property
    def base_model(self) -> Any:
        """The body of the model, under the adapter: ids -> states."""
        return functools.partial(self._on, self._base.base_model)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._on(self._base, *args, **options)

    def _on(self, module: Any, *args: Any, **options: Any) -> Any:
        with self._adapter.on():
            return module(*args, **options)

    def get_output_embeddings(self) -> Any:
        """Returns the layer that makes logits of states, which no adapter changes."""
        return self._base.get_output_embeddings()


def linear_layers(base: Any, upper: int) -> Mapping[str, Any]:
    """Returns the linear layers in the upper layers of a causal model, by their paths.

    Raises:
        ModelError: there are none.
    """
    path, stack = decoder_layers(base)
    depth = len(stack)
    linear = {
        f"{path}.{i}.{name}": inner
        for i in range(max(0, depth - upper), depth)
        for name, inner in stack[i].named_modules()
        if isinstance(inner, (torch.nn.Linear, Conv1D))
    }
    if linear:
        return linear
    raise ModelError(f"{type(base).__name__} has no linear layers that an adapter could change")


def _shape(module: Any) -> tuple[int, int]:
    """Inputs and outputs of a linear layer; GPT-2's keep their weight transposed."""
    if isinstance(module, Conv1D):
        return int(module.weight.shape[0]), int(module.weight.shape[1])
    return int(module.in_features), int(module.out_features)


Codes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class ClassLM:
    """A base model under the adapter of a guide of kind `class-lm`.

    The posterior of a label c given a text x of T tokens is softmax_c((α / T) log P(x | c) + b_c).

    Attributes:
        guide: what was learnt.
        lm: the base with the guide's adapter on, which shares the base's weights; it reads the code
            of a label before the text, and BOS before the code if it was trained so.
        codes: label -> tokens.
        scale: α.
        bias: label -> b; of a guide with opposites, of what the text is not and is, in this order.
        opposites: label -> the code of texts that do not have it, where texts are told apart label
            by label; empty where the other labels are that.
        scored: number of tokens at the end of a code that count as the text's.
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
def class_lm(guide: Guide, model: str = OFFLINE_LM, loading: Loading = AS_USUAL) -> ClassLM:
    """Returns the class-conditional model of a guide on its base, loaded once a process.

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
    lm = replace(lm, tokens=base.tokens.beginning(guide.reads_bos))
    return ClassLM(guide, lm, codes_of(guide.labels, base), scale, bias)


def write_adapter(guide: Guide, folder: Path | str, loading: Loading = AS_USUAL) -> None:
    """Writes the adapter of a guide of kind `class-lm` as PEFT saves one, in float16 as the guide
    has it, bit for bit.

    The adapted model expects BOS (if the guide was trained after BOS), a label and a line break
    before a text of that label. α and b of the posterior are not in it.

    Args:
        folder: absent or empty.
        loading: of the guide's base.

    Raises:
        ModelError: the guide is of another kind or a whole model, its base is not here, or its
            files are damaged.
        OSError: it can't be written, or the folder holds something.
    """
    if guide.is_whole:
        raise ModelError(
            f"guide '{guide.name}' is a whole model and has no adapter; its folder has a "
            f"{guide.base} that transformers loads"
        )
    with weights_on_base(guide, "class-lm", guide.base, loading) as (base, tensors):
        shape = guide.settings["adapter"]
        layers = linear_layers(base.model, shape["layers"])
        pairs = {
            path: (tensors[f"down.{name}"], tensors[f"up.{name}"])
            for path in layers
            if (name := path.replace(".", "/"))
        }
    is_on_hub = re.fullmatch("[0-9a-f]{40}", guide.revision) is not None
    write_lora(
        Path(folder),
        pairs,
        base=guide.base,
        revision=guide.revision if is_on_hub else None,
        alpha=float(shape["alpha"]),
        is_transposed=any(isinstance(layer, Conv1D) for layer in layers.values()),
    )


def _whole(guide: Guide, base: LanguageModel, loading: Loading) -> ClassLM:
    """Returns the class-conditional model of a guide that is a whole model."""
    resolved = resolve_causal(str(guide.path / guide.base), loading)
    check_own_model(guide, resolved)
    lm = open_language_model(resolved, loading)
    same = lm.tokens.digest == base.tokens.digest
    if not same or lm.tokens.vocabulary_size < base.tokens.vocabulary_size:
        raise ModelError(
            f"guide '{guide.name}' has a different vocabulary from the base {base.label}; use a "
            "base with its tokenizer"
        )
    with reading(guide.name):
        settings = guide.settings
        codes, opposites = (
            {
                label: tuple(id for word in words for id in lm.ids(word))
                for label, words in words_by_label.items()
            }
            for words_by_label in (settings["codes"], settings.get("opposites", {}))
        )
        scale, scored = float(settings["scale"]), int(settings["scored"])
        bias = {label: float(b) for label, b in settings["bias"].items()}
    lm = replace(lm, label=guide.label, tokens=lm.tokens.beginning(False))
    return ClassLM(guide, lm, codes, scale, bias, opposites, scored)


def adapted(base: LanguageModel, adapter: Adapter, label: str) -> LanguageModel:
    """Returns a base under an adapter."""
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
            f"labels {', '.join(labels)}: some have the same tokens in {base.label}; rename them"
        )
    return codes
