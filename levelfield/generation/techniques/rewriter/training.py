"""From pairs to a rewriter's folder."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from levelfield.core.arrays import Codes, Floats
from levelfield.core.direction import direction_of
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.registry import create
from levelfield.core.sample import Sample
from levelfield.generation.sampling import Continuation
from levelfield.generation.techniques.rewriter.copier import VOCABULARY, new_copier
from levelfield.generation.techniques.rewriter.network import (
    Sampled,
    Seq2Seq,
    as_seq2seq,
    open_seq2seq,
    token_log_p,
    write,
)
from levelfield.generation.techniques.rewriter.rewriter_options import RewardSpec, RewriterSpec
from levelfield.generation.techniques.rewriter.sentence_pairs import RewritingPair, RewritingPairs
from levelfield.generation.techniques.rewriter.technique import (
    REWRITER,
    RewriterFile,
    code,
    read_rewriter,
)
from levelfield.io import atomic_writer
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.train.builder import (
    Account,
    Beginning,
    Workplace,
    build,
    digest_of_weights,
    save_model,
    stepwise,
)
from levelfield.train.loop import HistoryRow, Loss, Passes


class Rewards:
    """r(y) = λ_style P(style | y) + λ_content c(y), as Lai et al. (2021) have it, in Mao (2021),
    section 2.2.2. What a metric leaves undefined (a text without words) counts 0.

    Raises:
        UserError: no such metric or judge, or a metric of which higher is not better or that has no
            value a text.
    """

    def __init__(self, spec: RewardSpec, attribute: str, loading: Loading = AS_USUAL) -> None:
        self._attribute = attribute
        self._terms: list[tuple[float, Metric]] = []
        common = {"device": loading.device}
        if spec.style:
            words = {"judges": spec.judges}
            (judged,) = create(["control.probability"], common, words)
            self._terms.append((spec.style, judged))
        if spec.content:
            (metric,) = create([spec.metric], common, {})
            if metric.level != "sample" or direction_of(metric) != "higher":
                raise UserError(f"--content {spec.metric}: expected a metric of single texts for "
                                "which higher is better")  # fmt: skip
            self._terms.append((spec.content / getattr(metric, "best", 1.0), metric))

    @property
    def signatures(self) -> tuple[str, ...]:
        """Every choice that could change a reward."""
        return tuple(f"{weight:g} {metric.signature}" for weight, metric in self._terms)

    def of(self, texts: Sequence[str], pairs: Sequence[RewritingPair]) -> Floats:
        """Returns the reward of a text for each pair: (texts,)."""
        samples = samples_of(texts, pairs, self._attribute)
        total = np.zeros(len(texts))
        for weight, metric in self._terms:
            total += weight * np.nan_to_num(metric.score(samples).values, posinf=0.0, neginf=0.0)
        return total


def samples_of(
    texts: Sequence[str], pairs: Sequence[RewritingPair], attribute: str
) -> list[Sample]:
    """Rewrites as metrics take them; the text of a pair is the reference."""
    return [
        Sample(
            id=str(n),
            text=text,
            source=pair.source,
            references=(pair.text,),
            control={attribute: pair.label},
        )
        for n, (text, pair) in enumerate(zip(texts, pairs, strict=True))
    ]


def policy_loss(log_p: torch.Tensor, rewards: Any, baselines: Any) -> torch.Tensor:
    """−(r(y) − b) log P(y | x) of sampled texts: (rows,).

    Its expectation over y ~ P has the gradient of −E[r(y)] for any b that does not depend on y
    (Williams 1992). Here b is the reward of the greedy text (self-critical; Rennie et al. 2017), so
    only texts that are better than what the model would write become likelier.

    Args:
        log_p: (rows,) of whole texts, with gradients.
        rewards, baselines: (rows,).
    """
    advantage = np.asarray(rewards, np.float64) - np.asarray(baselines, np.float64)
    return -torch.as_tensor(advantage).to(log_p) * log_p


LONGER = 10
"""A rewrite may have this many tokens more than one and a half times its source."""


@dataclass(frozen=True)
class Rewriting:
    """−Σ_t log P(y_t | y_<t, code, x) of the pairs, a token, plus the policy's loss, a text.

    Attributes:
        pairs: to learn from and held out.
        model: that learns.
        batch: pairs a step.
        start: names the weights that training begins from.
        rewards: of sampled texts; None for likelihood alone.
    """

    pairs: RewritingPairs
    model: Seq2Seq
    batch: int
    seed: int
    start: str
    rewards: Rewards | None = None

    @property
    def identity(self) -> str:
        rewards = self.rewards.signatures if self.rewards else ()
        return " ".join(["rewriter", self.pairs.digest, str(self.batch), self.start, *rewards])

    def loss(self, _: Any, step: int) -> Loss:
        """Of one batch, in nats; the count is of tokens."""
        rows = [int(i) for i in self._passes.rows(step)]
        pairs = [self.pairs.train[i] for i in rows]
        sources, targets = zip(*(self._ids[i] for i in rows), strict=True)
        log_p, is_token = token_log_p(self.model, sources, targets)
        total, count = -log_p.sum(), int(is_token.sum())
        if self.rewards:
            total = total + count * self._policy(pairs, sources).mean()
        return Loss(total, count)

    def _policy(
        self, pairs: Sequence[RewritingPair], sources: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """Returns the loss of sampled texts against greedy ones: (pairs,)."""
        assert self.rewards
        model = self.model
        budgets = [budget(model, source) for source in sources]
        learns = model.model.training
        model.model.eval()  # texts come from the model as it will write
        sampled = write(model, sources, budgets, choice=Sampled())
        greedy = write(model, sources, budgets)
        model.model.train(learns)
        rewards = self.rewards.of(
            [model.text(written.ids) for written in (*sampled, *greedy)], [*pairs, *pairs]
        )
        log_p, _ = token_log_p(model, sources, [_whole(written, model) for written in sampled])
        return policy_loss(log_p.sum(-1), rewards[: len(pairs)], rewards[len(pairs) :])

    def validation(self, _: Any) -> Mapping[str, float]:
        """Mean loss a token over held-out pairs; nothing without any."""
        if not self.pairs.test:
            return {}
        return {"loss": mean_loss(self.model, self.pairs.test, self.batch)}

    @functools.cached_property
    def _ids(self) -> list[tuple[list[int], list[int]]]:
        return [ids_of(self.model, pair) for pair in self.pairs.train]

    @functools.cached_property
    def _passes(self) -> Passes:
        times: Codes = np.ones(len(self._ids), np.intp)
        lengths = [len(source) + len(target) for source, target in self._ids]
        return Passes(times, lengths, self.batch, self.seed)


def ids_of(model: Seq2Seq, pair: RewritingPair) -> tuple[list[int], list[int]]:
    """What the encoder reads and what the decoder writes."""
    return model.source(code(pair.label, pair.source))[0], model.target(pair.text)


def budget(model: Seq2Seq, source: Sequence[int]) -> int:
    """Returns the most tokens that a rewrite of these tokens may have."""
    return min(model.limit - 1, len(source) * 3 // 2 + LONGER)


def mean_loss(model: Seq2Seq, pairs: Sequence[RewritingPair], batch: int) -> float:
    """−log P a token of the texts, the tokens that end them included, in nats."""
    total, count = 0.0, 0
    with torch.no_grad():
        for begin in range(0, len(pairs), batch):
            ids = [ids_of(model, pair) for pair in pairs[begin : begin + batch]]
            sources, targets = zip(*ids, strict=True)
            log_p, is_token = token_log_p(model, sources, targets)
            total, count = total - float(log_p.double().sum()), count + int(is_token.sum())
    return total / max(1, count)


def greedy_texts(model: Seq2Seq, pairs: Sequence[RewritingPair], batch: int) -> list[str]:
    """What the model writes for the sources of pairs."""
    texts = []
    for begin in range(0, len(pairs), batch):
        sources = [ids_of(model, pair)[0] for pair in pairs[begin : begin + batch]]
        written = write(model, sources, [budget(model, source) for source in sources])
        texts += [model.text(text.ids) for text in written]
    return texts


def _whole(written: Continuation, model: Seq2Seq) -> list[int]:
    """Returns the tokens chosen, that which ended the text included."""
    return [*written.ids, *([model.end] if written.has_ended else ())]


def held_out_figures(
    model: Seq2Seq, pairs: RewritingPairs, spec: RewriterSpec
) -> dict[str, float | None]:
    """Figures on held-out pairs; greedy texts.

    Returns:
        `n` pairs; `loss` in nats per token; `copies`, the share of texts equal to their source;
        `bleu` and `chrf`, means over texts against the text of the pair, 0 to 100; `style`, the
        share of judges that find the wanted style, None without judges. Nothing without pairs.
    """
    if not pairs.test:
        return {"n": 0}
    texts = greedy_texts(model, pairs.test, spec.batch)
    samples = samples_of(texts, pairs.test, pairs.attribute)
    figures: dict[str, float | None] = {
        "n": len(samples),
        "loss": mean_loss(model, pairs.test, spec.batch),
        "copies": float(np.mean([s.text.split() == s.source.split() for s in samples])),
    }
    names = {"bleu": "bleu.references", "chrf": "chrf.references"}
    names |= {"style": "control.average"} if spec.judges else {}
    common = {"judges": spec.judges, "device": spec.loading.device}
    for name, metric in zip(names, create([*names.values()], common, {}), strict=True):
        values = metric.score(samples).values
        figures[name] = None if np.isnan(values).all() else float(np.nanmean(values))
    return {name: value if value is None else round(value, 6) for name, value in figures.items()}


def facts_of(when: str, figures: Mapping[str, float | None]) -> dict[str, str]:
    """Returns the figures as a row of the card; none where there are no figures."""
    forms = {
        "loss": "{:.4f} nats per token",
        "copies": "{:.3f} of texts equal their source",
        "bleu": "BLEU {:.1f} against the text of the pair",
        "chrf": "chrF {:.1f}",
        "style": "{:.3f} of judges find the wanted style",
    }
    words = [forms[k].format(v) for k, v in figures.items() if k in forms and v is not None]
    return {when: ", ".join(words)} if words else {}


def build_rewriter(
    pairs: RewritingPairs, spec: RewriterSpec, out: Path, **account: Unpack[Account]
) -> RewriterFile:
    """Fine-tunes an encoder-decoder on pairs, tries it on those held out, and leaves a model folder
    with a card at `out`.

    Args:
        account: sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: a judge or metric that is missing, and as of `build`.
    """

    def begin(spec: RewriterSpec, place: Workplace) -> Beginning:
        model = _begun(spec)
        _check_lengths(model, pairs)
        rewards = Rewards(spec.rewards, pairs.attribute, spec.loading) if spec.rewards else None
        before = held_out_figures(model, pairs, spec)

        def save(_: HistoryRow) -> Mapping[str, str]:
            figures = held_out_figures(model, pairs, spec)
            save_model(model.model, model.tokenizer, place.out, half=spec.half)
            about = RewriterFile(pairs.attribute, pairs.labels, model.label, figures)
            with atomic_writer(place.out / REWRITER) as file:
                file.write(json.dumps(about.to_dict(), indent=1, ensure_ascii=False) + "\n")
            return {**facts_of("Held out, before", before), **facts_of("Held out, after", figures)}

        start = digest_of_weights(model.model)
        kept = sum(pair.source.split() == pair.text.split() for pair in pairs.test)
        return Beginning(
            "rewrites a sentence in a wanted style",
            model.model,
            Rewriting(pairs, model, spec.batch, spec.recipe.seed, start, rewards),
            model.label,
            f"{spec.batch} pairs",
            save,
            {
                "Attribute": pairs.attribute,
                "Labels": ", ".join(pairs.labels),
                "Pairs": f"{len(pairs.train):,} to learn from, {len(pairs.test):,} held out, of "
                f"which {kept} need no change",
                "Rewards": "; ".join(rewards.signatures) if rewards else "none",
            },
        )

    build(stepwise(begin), spec, pairs.digest, out, noun="rewriter", **account)
    return read_rewriter(out, out.name)


def _begun(spec: RewriterSpec) -> Seq2Seq:
    """Returns the model before the first step; the same one every time."""
    if spec.start:
        return open_seq2seq(spec.start, spec.loading)
    return as_seq2seq(
        *new_copier(spec.recipe.seed, spec.loading), f"a copier, {VOCABULARY}'s words"
    )


def _check_lengths(model: Seq2Seq, pairs: RewritingPairs) -> None:
    long = max(len(model.target(pair.text)) for pair in pairs.train)
    if long >= model.limit:
        raise UserError(f"a text of the pairs has {model.limit} tokens or more; leave it out")
