"""What the cases of techniques are made of: tiny models, guides of every kind, and servers.

`case.py` in the folder of a technique has its case, and `contract_cases` collects them.
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

import tiny_ctrl

import tiny
import tiny_class_lm
import tiny_editor
import tiny_future
import tiny_heads
import tiny_latent
import tiny_rewriter
import tiny_soft_prompt
import tiny_vectors
from chat_server import Reply, serving
from levelfield.core.sample import Control


@functools.cache
def model(family: str = "gpt2", seed: int = 0, *, begins: bool = True) -> str:
    """A folder with a random model, made once.

    Args:
        begins: whether its tokenizer puts BOS before a text.
    """
    folder = Path(tempfile.mkdtemp(prefix="levelfield-tiny-"))
    return str(tiny.save(family, folder, begins=begins, seed=seed))


@dataclass(frozen=True)
class Case:
    """A technique as the contract test asks for it.

    Attributes:
        make: options -> technique; on a tiny model unless the options name another.
        controls: that it supports; at least two.
        refused: a control that it does not support; None where it takes any.
        strength: whether it has one; of 0, it is the base.
        strong: a strength that changes texts.
        rereads: whether a text counts the same whether it was read as a prompt or written.
        steers: whether its `processor` says what it does to the base's logits; if not, it need
            not define a distribution over texts.
        autoregressive: whether each token takes a pass of its own.
        draws: whether another seed gives other texts.
        rewrites: whether it is asked with sources, not prompts.
        generates: whether a model generates its tokens; if not, there are none.
        options: that change a text, name -> another value.
    """

    make: Callable[..., Any]
    controls: tuple[Control, ...] = ({"sentiment": "positive"}, {"sentiment": "negative"})
    refused: Control | None = field(default_factory=lambda: {"keywords": ("court", "culture")})
    strength: bool = True
    strong: float = 5.0
    rereads: bool = True
    steers: bool = True
    autoregressive: bool = True
    draws: bool = True
    rewrites: bool = False
    generates: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)


JUDGE = Path(__file__).parent / "golden" / "material" / "models" / "classifier"
"""A random classifier of sentiment."""


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


def with_guide(
    technique: Callable[..., Any], guide_of: Callable[[str], str], unless: str = "", **defaults: Any
) -> Callable[..., Any]:
    """The technique on a tiny model, with a guide for it.

    Args:
        unless: an option that takes the place of the guide.
    """

    def make(**options: Any) -> Any:
        base = options.get("model", model())
        named = {"guide": guide_of(base if base == model("llama") else model())}
        return technique(
            **{"model": base, **({} if unless in options else named), **defaults, **options}
        )

    return make


def amateur(base: str | None) -> str:
    """A model with the vocabulary of a base."""
    return model("llama" if base == model("llama") else "gpt2", seed=1)


@functools.cache
def class_guide(base: str, attribute: str = "sentiment", seed: int = 0) -> str:
    """A folder with a random guide of kind `class-lm`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-class-lm-")) / attribute
    labels = {"sentiment": ("negative", "positive"), "topic": ("World", "Sports", "Sci/Tech")}
    return str(tiny_class_lm.save(base, folder, attribute, labels[attribute], seed=seed))


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


@functools.cache
def prompt_guide(base: str, attribute: str = "sentiment", seed: int = 0) -> str:
    """A folder with a random guide of kind `soft-prompt`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-soft-prompt-")) / attribute
    labels = {"sentiment": ("negative", "positive"), "topic": ("World", "Sports", "Sci/Tech")}
    return str(tiny_soft_prompt.save(base, folder, attribute, labels[attribute], seed=seed))


@functools.cache
def head_guide(base: str, attribute: str = "sentiment", seed: int = 0) -> str:
    """A folder with a random guide of kind `head`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-head-")) / attribute
    labels = {"sentiment": tiny_heads.SENTIMENT, "topic": ("World", "Sports", "Sci/Tech")}
    return str(tiny_heads.save(base, folder, attribute, labels[attribute], seed=seed))


@functools.cache
def vector_guide(base: str, attribute: str = "sentiment", seed: int = 0) -> str:
    """A folder with a random guide of kind `vector`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-vector-")) / attribute
    labels = {"sentiment": tiny_heads.SENTIMENT, "topic": ("World", "Sports", "Sci/Tech")}
    return str(tiny_vectors.save(base, folder, attribute, labels[attribute], seed=seed))


@functools.cache
def heads_guide(base: str, seed: int = 0) -> str:
    """A folder with a random guide of kind `heads`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-heads-")) / "sentiment"
    return str(tiny_vectors.save_heads(base, folder, tiny_heads.SENTIMENT, seed=seed))


@functools.cache
def reft_guide(base: str, attribute: str = "sentiment", seed: int = 0) -> str:
    """A folder with a random guide of kind `reft`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-reft-")) / attribute
    labels = {"sentiment": tiny_heads.SENTIMENT, "topic": ("World", "Sports")}
    return str(tiny_vectors.save_edits(base, folder, attribute, labels[attribute], seed=seed))


@functools.cache
def vector_file(base: str, seed: int = 0) -> str:
    """A control vector with random values, made once."""
    path = Path(tempfile.mkdtemp(prefix="levelfield-control-")) / "vector.gguf"
    return str(tiny_vectors.save_file(base, path, seed=seed))


@functools.cache
def latent_guide(base: str, seed: int = 0) -> str:
    """A folder with a random guide of kind `latent` for sentiment and topic, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-latent-")) / "both"
    return str(tiny_latent.save(base, folder, seed=seed))


BOTH: tuple[Control, ...] = (
    {"sentiment": "positive"},
    {"sentiment": "negative", "topic": "Sports"},
)


@functools.cache
def ctrl() -> str:
    """A folder with a random CTRL, made once."""
    return str(tiny_ctrl.save(Path(tempfile.mkdtemp(prefix="levelfield-ctrl-")) / "tiny"))


@functools.cache
def editor(seed: int = 0) -> str:
    """A folder with a random editor that rather inserts, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-editor-")) / "tiny"
    return str(tiny_editor.save(folder, seed=seed))


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


@functools.cache
def rewriter(family: str = "t5", seed: int = 0) -> str:
    """A folder with a random rewriter, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-rewriter-"))
    return str(tiny_rewriter.save(folder / family, family, seed=seed))


def without_model(technique: Callable[..., Any]) -> Callable[..., Any]:
    """A technique that has no model to name."""

    def make(**options: Any) -> Any:
        return technique(**{k: v for k, v in options.items() if k not in ("batch", "model")})

    return make
