"""Every technique on a tiny model, for the tests that all of them must pass.

A new technique is one entry in `CASES`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tiny
import tiny_class_lm
import tiny_ctrl
import tiny_future
from chat_server import Reply, serving

from levelfield.core.sample import Control
from levelfield.systems.base import UncontrolledBase
from levelfield.systems.cat_paw import CATPAW
from levelfield.systems.combination import Combination, ModelTerm
from levelfield.systems.contrastive import ContrastiveDecoding
from levelfield.systems.ctrl import CTRL
from levelfield.systems.ctrl_lite import CTRLLite
from levelfield.systems.dexperts import DExperts
from levelfield.systems.fudge import FUDGE
from levelfield.systems.gedi import GeDi
from levelfield.systems.guidance import ClassifierFreeGuidance
from levelfield.systems.prompting.chat import ChatPrompting
from levelfield.systems.prompting.local import Prompting


@functools.cache
def model(family: str = "gpt2", seed: int = 0) -> str:
    """A folder with a random model, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-tiny-"))
    return str(tiny.save(family, folder, seed=seed))


@dataclass(frozen=True)
class Case:
    """A technique as the contract test asks for it.

    Attributes:
        make: options -> technique; on a tiny model unless the options name another.
        controls: that it supports; at least two.
        refused: a control that it does not support; None where it takes any.
        strength: whether it has one; of 0, it is the base.
        options: that change a text, name -> another value.
    """

    make: Callable[..., Any]
    controls: tuple[Control, ...] = ({"sentiment": "positive"}, {"sentiment": "negative"})
    refused: Control | None = field(default_factory=lambda: {"keywords": ("court", "culture")})
    strength: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)


def on_tiny(technique: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    """The technique on a tiny model."""

    def make(**options: Any) -> Any:
        return technique(**{"model": model(), **defaults, **options})

    return make


@functools.cache
def bag() -> str:
    """A file of words that the tiny models know."""
    path = Path(tempfile.mkdtemp(prefix="levelfield-bag-")) / "bag.txt"
    path.write_text("it\nwas\nthe\nvery\nand\na\n", encoding="utf-8")
    return str(path)


def amateur(base: str | None) -> str:
    """A model with the vocabulary of a base."""
    return model("llama" if base == model("llama") else "gpt2", seed=1)


@functools.cache
def class_guide(base: str, attribute: str = "sentiment", seed: int = 0) -> str:
    """A folder with a random guide of kind `class-lm`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-class-lm-")) / attribute
    labels = {"sentiment": ("negative", "positive"), "topic": ("World", "Sports", "Sci/Tech")}
    return str(tiny_class_lm.save(base, folder, attribute, labels[attribute], seed=seed))


def with_class_guide(technique: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    """The technique on a tiny model, with a guide for it."""

    def make(**options: Any) -> Any:
        base = options.get("model", model())
        guide = class_guide(base if base == model("llama") else model())
        return technique(**{"model": base, "guide": guide, **defaults, **options})

    return make


def terse_instructions() -> Path:
    """Templates of few tokens."""
    path = Path(tempfile.mkdtemp(prefix="levelfield-prompts-")) / "terse.toml"
    path.write_text(
        """
        system = "Write."
        task = "A text{wishes}."
        opening = "Begin: {prompt}"
        wishes = { other = "{values}" }
        [plain]
        system = "{content} "
        user = "U: {content}\\n"
        assistant = "A: {content}\\n"
        """,
        encoding="utf-8",
    )
    return path


@functools.cache
def future_guide(base: str, attribute: str = "sentiment", seed: int = 0) -> str:
    """A folder with a random guide of kind `future`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-future-"))
    labels = tiny_future.SENTIMENT if attribute == "sentiment" else ("arts", "science", "sports")
    return str(tiny_future.save(base, folder / attribute, attribute, labels, seed=seed))


def fudge(**options: Any) -> FUDGE:
    """With a guide for its base."""
    base = options.get("model", model())
    guide = future_guide(base if base == model("llama") else model())
    strength = 5.0  # which rounding errors are multiplied by
    return FUDGE(**{"model": base, "guide": guide, "strength": strength, **options})


@functools.cache
def ctrl() -> str:
    """A folder with a random CTRL, made once."""
    return str(tiny_ctrl.save(Path(tempfile.mkdtemp(prefix="levelfield-ctrl-")) / "tiny"))


OPENING = "It begins with exactly these words: "


def writes(body: dict[str, Any], _: int) -> Reply:
    """A chat model that goes on with the opening, by its seed."""
    said = body["messages"][-1]["content"]
    n = min(6, body["max_tokens"])
    words = random.Random(body["seed"]).choices(["ice", "snow", "thaw", "lake"], k=n)
    text = f"{said.partition(OPENING)[2]} {' '.join(words)}"
    choices = [{"message": {"role": "assistant", "content": text}}]
    return Reply({"choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": n}})


@functools.cache
def server() -> str:
    """The address of a chat server, started once."""
    url, _ = RUNNING.enter_context(serving(writes))
    return url


RUNNING = contextlib.ExitStack()
"""Servers that live as long as the tests."""
# later, when modules are taken apart, a server's thread can no longer say that it has ended
atexit.register(RUNNING.close)


CASES: Mapping[str, Case] = {
    "base": Case(on_tiny(UncontrolledBase), refused=None, strength=False),
    "cfg": Case(
        on_tiny(ClassifierFreeGuidance),
        refused={"topic": ("science", "politics")},
        options={"strength": 3.0, "against": "opposite", "template": "A {sentiment} text: "},
    ),
    "cat-paw": Case(
        on_tiny(CATPAW, inner="cfg", bag=bag(), tau=0.01),
        refused={"topic": ("science", "politics")},
        options={
            "inner_options": "against=opposite",
            "strength": 3.0,
            "tau": 0.2,
            "cap": 1.0,
            "bag": "",
            "words": "first",
        },
    ),
    "combination": Case(
        on_tiny(
            Combination,
            formula="base + strength * (expert - base)",
            terms={"expert": ModelTerm("A {sentiment} text: ")},
        ),
        refused={"topic": "science"},
        options={
            "formula": "base + 2 * strength * expert",
            "terms": {"expert": ModelTerm("So {sentiment}: ", temperature=2.0)},
            "strength": 3.0,
        },
    ),
    "contrastive": Case(
        lambda **options: ContrastiveDecoding(
            **{"model": model(), "amateur": amateur(options.get("model")), **options}
        ),
        refused=None,
        options={
            "strength": 3.0,
            "form": "plain",
            "alpha": 0.3,
            "amateur": model(),
            "amateur_temperature": 0.5,
            "sees_prompt": False,
        },
    ),
    "ctrl-lite": Case(
        with_class_guide(CTRLLite),
        strength=False,
        options={"guide": class_guide(model(), seed=1)},
    ),
    "dexperts": Case(
        with_class_guide(DExperts),
        options={"strength": 1.0, "guide": class_guide(model(), seed=1)},
    ),
    "gedi": Case(
        with_class_guide(GeDi, strength=5.0),  # which rounding errors are multiplied by
        options={
            "strength": 10.0,
            "guide": class_guide(model(), seed=1),
            "length": "sum",
            "filter_p": 0.8,
        },
    ),
    "prompting": Case(
        on_tiny(Prompting),
        controls=({"sentiment": "positive"}, {"keywords": ("court", "culture")}),
        refused={"sentiment": ()},
        strength=False,
        options={"shots": 1, "instructions": str(terse_instructions())},
    ),
    "fudge": Case(
        fudge,
        options={
            "strength": 3.0,
            "guide": future_guide(model(), seed=1),
            "candidates": 20,
            "keep": 10,
        },
    ),
    "ctrl": Case(
        lambda **options: CTRL(
            **{
                **options,
                # other models than CTRL are refused
                "model": options.get("model") if "no/" in options.get("model", "") else ctrl(),
            }
        ),
        controls=({"sentiment": "positive"}, {"topic": "Sports"}),
        strength=False,
        options={"code": "Horror"},
    ),
    "chat": Case(
        lambda batch=8, **options: ChatPrompting(
            **{"model": "m", "base_url": server(), "concurrency": batch, **options}
        ),
        controls=({"sentiment": "positive"}, {"keywords": ("court", "culture")}),
        refused={"sentiment": ()},
        strength=False,
        options={"shots": 1, "instructions": str(terse_instructions()), "prefill": True},
    ),
}
