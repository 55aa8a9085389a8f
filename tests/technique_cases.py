"""Every technique on a tiny model, for the tests that all of them must pass.

A new technique is one entry in `CASES`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import random
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
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
from levelfield.generation.technique import UncontrolledBase
from levelfield.generation.techniques.ablation.technique import Ablation
from levelfield.generation.techniques.air_decoding.technique import AirDecoding
from levelfield.generation.techniques.best_of_n.technique import BestOfN
from levelfield.generation.techniques.bolt.technique import BOLT
from levelfield.generation.techniques.caa.technique import CAA
from levelfield.generation.techniques.cat_paw.technique import CATPAW
from levelfield.generation.techniques.cbart.technique import CBART
from levelfield.generation.techniques.cfg.technique import ClassifierFreeGuidance
from levelfield.generation.techniques.chat.technique import ChatPrompting
from levelfield.generation.techniques.combination.technique import Combination, ModelTerm
from levelfield.generation.techniques.constrained_beam.technique import ConstrainedBeam
from levelfield.generation.techniques.contrastive.technique import ContrastiveDecoding
from levelfield.generation.techniques.copy.technique import CopySource
from levelfield.generation.techniques.ctrl.technique import CTRL
from levelfield.generation.techniques.ctrl_lite.technique import CTRLLite
from levelfield.generation.techniques.dexperts.technique import DExperts
from levelfield.generation.techniques.discup.technique import DisCup
from levelfield.generation.techniques.fudge.technique import FUDGE
from levelfield.generation.techniques.gedi.technique import GeDi
from levelfield.generation.techniques.genarm.technique import GenARM
from levelfield.generation.techniques.iti.technique import ITI
from levelfield.generation.techniques.loreft.technique import LoReFT
from levelfield.generation.techniques.multictg.technique import MultiCTG
from levelfield.generation.techniques.pplm.technique import PPLM
from levelfield.generation.techniques.preadd.technique import PREADD
from levelfield.generation.techniques.priorctg.technique import PriorCTG
from levelfield.generation.techniques.prompting.technique import Prompting
from levelfield.generation.techniques.proxy_tuning.technique import ProxyTuning
from levelfield.generation.techniques.rad.technique import RAD
from levelfield.generation.techniques.rewriter.technique import Rewriter
from levelfield.generation.techniques.rules.technique import FormalityRules
from levelfield.generation.techniques.self_debiasing.technique import SelfDebiasing
from levelfield.generation.techniques.smc.technique import SMC

QUICK = ("base", "gedi", "prompting", "caa", "pplm", "cbart", "constrained-beam", "combination")
"""A technique a mechanism: none, logits, input, states, gradient, editing, search, techniques in a
technique. In `make test` they stand for the others, which `make test-slow` tries."""


def by_mechanism(names: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrizes a test over techniques; those that are not in `QUICK` are slow."""
    return pytest.mark.parametrize(
        "name",
        [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names],
    )


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
        named = {} if "experts" in options else {"guide": guide}
        return technique(**{"model": base, **named, **defaults, **options})

    return make


def proxy_tuning(**options: Any) -> ProxyTuning:
    """On a tiny model; experts come with the model that they were tuned from."""
    before = {"untuned": model(seed=3)} if "experts" in options else {}
    return with_class_guide(ProxyTuning)(**before, **options)


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


def smc(**options: Any) -> SMC:
    """With a guide for its base, and few particles."""
    base = options.get("model", model())
    guide = future_guide(base if base == model("llama") else model())
    chosen = {"model": base, "guide": guide, "particles": 4, "strength": 5.0}
    return SMC(**{**chosen, **options})


def bolt(**options: Any) -> BOLT:
    """With a guide for its base, and few iterations."""
    base = options.get("model", model())
    guide = future_guide(base if base == model("llama") else model())
    return BOLT(**{"model": base, "guide": guide, "iterations": 3, **options})


@functools.cache
def prompt_guide(base: str, attribute: str = "sentiment", seed: int = 0) -> str:
    """A folder with a random guide of kind `soft-prompt`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-soft-prompt-")) / attribute
    labels = {"sentiment": ("negative", "positive"), "topic": ("World", "Sports", "Sci/Tech")}
    return str(tiny_soft_prompt.save(base, folder, attribute, labels[attribute], seed=seed))


def discup(**options: Any) -> DisCup:
    """With a guide for its base."""
    base = options.get("model", model())
    guide = prompt_guide(base if base == model("llama") else model())
    return DisCup(**{"model": base, "guide": guide, **options})


@functools.cache
def head_guide(base: str, attribute: str = "sentiment", seed: int = 0) -> str:
    """A folder with a random guide of kind `head`, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-head-")) / attribute
    labels = {"sentiment": tiny_heads.SENTIMENT, "topic": ("World", "Sports", "Sci/Tech")}
    return str(tiny_heads.save(base, folder, attribute, labels[attribute], seed=seed))


def pplm(**options: Any) -> PPLM:
    """With a head for its base."""
    base = options.get("model", model())
    guide = head_guide(base if base == model("llama") else model())
    return PPLM(**{"model": base, "guide": guide, "strength": 0.2, "iterations": 2, **options})


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


def loreft(**options: Any) -> LoReFT:
    """With a guide for its base."""
    base = options.get("model", model())
    guide = reft_guide(base if base == model("llama") else model())
    return LoReFT(**{"model": base, "guide": guide, **options})


def iti(**options: Any) -> ITI:
    """With a guide for its base."""
    base = options.get("model", model())
    guide = heads_guide(base if base == model("llama") else model())
    return ITI(**{"model": base, "guide": guide, "strength": 1.0, "heads": 3, **options})


@functools.cache
def vector_file(base: str, seed: int = 0) -> str:
    """A control vector with random values, made once."""
    path = Path(tempfile.mkdtemp(prefix="levelfield-control-")) / "vector.gguf"
    return str(tiny_vectors.save_file(base, path, seed=seed))


def with_vectors(technique: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    """The technique on a tiny model, with a guide for it."""

    def make(**options: Any) -> Any:
        base = options.get("model", model())
        guide = vector_guide(base if base == model("llama") else model())
        named = {} if "vectors" in options else {"guide": guide}
        return technique(**{"model": base, **named, **defaults, **options})

    return make


@functools.cache
def latent_guide(base: str, seed: int = 0) -> str:
    """A folder with a random guide of kind `latent` for sentiment and topic, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-latent-")) / "both"
    return str(tiny_latent.save(base, folder, seed=seed))


def with_latent_guide(technique: Callable[..., Any]) -> Callable[..., Any]:
    """The technique on a tiny model, with a guide for it."""

    def make(**options: Any) -> Any:
        base = options.get("model", model())
        guide = latent_guide(base if base == model("llama") else model())
        return technique(**{"model": base, "guide": guide, **options})

    return make


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


def with_rewriter(**options: Any) -> Rewriter:
    """On a tiny rewriter; no other model is one."""
    return Rewriter(**{"model": rewriter(), **options})


def without_model(technique: Callable[..., Any]) -> Callable[..., Any]:
    """A technique that has no model to name."""

    def make(**options: Any) -> Any:
        return technique(**{k: v for k, v in options.items() if k not in ("batch", "model")})

    return make


CASES: Mapping[str, Case] = {
    "base": Case(on_tiny(UncontrolledBase), refused=None, strength=False),
    "cfg": Case(
        on_tiny(ClassifierFreeGuidance),
        refused={"topic": ("science", "politics")},
        options={
            "strength": 3.0,
            "against": "opposite",
            "template": "A {sentiment} text: ",
            "negative": "It was the ",
        },
    ),
    "preadd": Case(
        on_tiny(PREADD),
        options={"strength": 3.0, "template": "A {sentiment} text: "},
    ),
    "self-debiasing": Case(
        on_tiny(SelfDebiasing, strength=500.0),  # a tiny model's probabilities are small
        strong=5000.0,
        options={"strength": 900.0, "template": "A {sentiment} text: ", "floor": 0.5},
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
    "caa": Case(
        with_vectors(CAA, strength=1.0),
        options={
            "strength": 3.0,
            "guide": vector_guide(model(), seed=1),
            "vectors": f"positive={vector_file(model())}",
            "layers": "0",
        },
    ),
    "ablation": Case(
        with_vectors(Ablation),
        options={
            "strength": 3.0,
            "guide": vector_guide(model(), seed=1),
            "vectors": f"positive={vector_file(model())}",
            "layer": 0,
        },
    ),
    "iti": Case(
        iti,
        options={"strength": 3.0, "guide": heads_guide(model(), seed=1), "heads": 1},
    ),
    "loreft": Case(
        loreft,
        options={"strength": 0.5, "guide": reft_guide(model(), seed=1)},
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
    "proxy-tuning": Case(
        proxy_tuning,
        options={
            "strength": 3.0,
            "guide": class_guide(model(), seed=1),
            "experts": f"positive={model(seed=1)},negative={model(seed=2)}",
            "untuned": model(seed=3),
        },
    ),
    "genarm": Case(
        with_class_guide(GenARM),
        options={
            "strength": 3.0,
            "guide": class_guide(model(), seed=1),
            "experts": f"positive={model(seed=1)},negative={model(seed=2)}",
        },
    ),
    "air-decoding": Case(
        with_class_guide(AirDecoding, strength=5.0),  # which rounding errors are multiplied by
        strong=200.0,
        rereads=False,  # only what is written counts
        options={"strength": 50.0, "guide": class_guide(model(), seed=1)},
    ),
    "discup": Case(discup, strength=False, options={"guide": prompt_guide(model(), seed=1)}),
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
            "form": "p",
        },
    ),
    "smc": Case(
        smc,
        steers=False,
        options={
            "strength": 3.0,
            "guide": future_guide(model(), seed=1),
            "particles": 3,
            "threshold": 0.9,
        },
    ),
    "pplm": Case(
        pplm,
        steers=False,
        options={
            "strength": 0.3,
            "guide": head_guide(model(), seed=1),
            "bag": bag(),
            "iterations": 3,
            "bag_scale": 0.5,
            "gamma": 1.5,
            "fusion": 0.5,
            "kl": 1.0,
            "window": 2,
            "horizon": 2,
        },
    ),
    "multictg": Case(
        with_latent_guide(MultiCTG),
        controls=BOTH,
        strength=False,
        steers=False,
        options={
            "neighbours": 3,
            "centres": 1,
            "noise": 0.5,
            "weights": "topic=2",
            "guide": latent_guide(model(), seed=1),
        },
    ),
    "priorctg": Case(
        with_latent_guide(PriorCTG),
        controls=BOTH,
        strength=False,
        steers=False,
        options={
            "spread": 1.0,
            "extension": 0.3,
            "ode": True,
            "weights": "topic=2",
            "guide": latent_guide(model(), seed=1),
        },
    ),
    "bolt": Case(
        bolt,
        controls=(
            {"sentiment": "positive"},
            {"sentiment": "negative"},
            {"keywords": ("lake", "road")},
            {"keywords": ("was",), "sentiment": "positive"},
        ),
        refused={"topic": "science"},
        strength=False,
        steers=False,
        options={
            "guide": class_guide(model()),
            "iterations": 5,
            "learning_rate": 0.2,
            "weight_decay": 0.5,
            "initial": 0.1,
            "noise": 0.0,
            "gradients": "zero",
            "fluency": 1.0,
            "keyword_weight": 3.0,
            "until": "any",
            "repetition_penalty": 1.0,
        },
    ),
    "ctrl": Case(
        lambda **options: CTRL(
            **{
                **options,
                # other models than CTRL are refused
                "model": options["model"] if options.get("model", "").startswith("no/") else ctrl(),
            }
        ),
        controls=({"sentiment": "positive"}, {"topic": "Sports"}),
        strength=False,
        options={"code": "Horror"},
    ),
    "copy": Case(
        without_model(CopySource),
        controls=({"formality": "formal"}, {"sentiment": "positive"}),
        refused=None,
        strength=False,
        autoregressive=False,
        draws=False,
        rewrites=True,
        generates=False,
    ),
    "rewriter": Case(
        with_rewriter,
        controls=({"formality": "formal"}, {"formality": "informal"}),
        strength=False,
        rewrites=True,
        options={"model": rewriter(seed=1), "beams": 2},
    ),
    "rules": Case(
        without_model(FormalityRules),
        controls=({"formality": "formal"}, {"formality": "informal"}),
        strength=False,
        autoregressive=False,
        draws=False,
        rewrites=True,
        generates=False,
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
    "rad": Case(
        on_tiny(RAD, metric_options=f"judges={JUDGE}"),
        strong=300.0,
        options={"strength": 3.0, "candidates": 5, "metric_options": "judges=vader"},
    ),
    "best-of-n": Case(
        on_tiny(BestOfN, n=3, metric_options="judges=vader"),
        strength=False,
        steers=False,
        options={
            "n": 2,
            "inner": "cfg",
            "inner_options": "batch=4 bos=false",
            "metric": "control.average",
            "metric_options": "judges=minilm",
        },
    ),
    "constrained-beam": Case(
        on_tiny(ConstrainedBeam, beams=4),
        controls=({"keywords": ("it",)}, {"keywords": ("a",)}),
        refused={"sentiment": "positive"},
        strength=False,
        steers=False,
        draws=False,
        options={"beams": 2, "order": "given", "length_penalty": 0.0, "no_repeat": 0},
    ),
    "cbart": Case(
        lambda **options: CBART(**{"model": editor(), "ranker": model(), **options}),
        controls=({"keywords": ("court", "culture")}, {"keywords": "it"}),
        refused={"sentiment": "positive"},
        strength=False,
        steers=False,
        autoregressive=False,
        options={
            "model": editor(1),
            "passes": 2,
            "chains": 1,
            "penalty": 1.0,
            "eagerness": 3.0,
            "forbidden": "copy",
            "begin": "any",
            "stops": True,
            "gap_top_k": 2,
            "gap_top_p": 0.9,
            "ranker": model(seed=1),
        },
    ),
}
