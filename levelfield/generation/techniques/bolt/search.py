"""BOLT's search: texts written again and again under biases that gradients tune."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from levelfield.core.options import Options, option
from levelfield.core.sample import Sample
from levelfield.generation.contract import Decoding
from levelfield.generation.open_rows import ReadPrompts, float32_or_wider
from levelfield.generation.techniques._energies.energies import keyword_energy, label_energy
from levelfield.generation.techniques.bolt.discriminators import LabelReader
from levelfield.generation.techniques.bolt.rollout import Rollout, roll_out, unwanted
from levelfield.metrics.keywords import KeywordsCoverage
from levelfield.models.tokens import padded, token_mask
from levelfield.models.torch.draws import stream
from levelfield.models.torch.language_model import LanguageModel


class SavedTensors:
    """Tensors that are kept for gradients; storages count once.

    Args:
        model: whose weights do not count.
    """

    def __init__(self, model: Any) -> None:
        self._weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
        self._sizes: dict[int, int] = {}

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(self._sizes.values())

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Counts what is saved in this context; the graph has to live until its end."""
        with torch.autograd.graph.saved_tensors_hooks(self._note, lambda tensor: tensor):
            yield

    def _note(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._weights:
            self._sizes[storage.data_ptr()] = storage.nbytes()
        return tensor


Gradients = Literal["accumulate", "zero"]


@dataclass(frozen=True, kw_only=True)
class BiasOptions(Options):
    """How biases are tuned, and texts searched for. The weight of the energy of labels is 1."""

    iterations: int | None = option(
        None,
        "Number of texts that are written, one of which is kept.",
        least=1,
        otherwise="8; with keywords at most 100",
    )
    learning_rate: float | None = option(
        None,
        "Learning rate of AdamW, by default as published.",
        above=0,
        otherwise="0.025; with keywords 0.4",
    )
    weight_decay: float = option(0.01, "Weight decay of AdamW.", least=0)
    initial: float = option(
        0.5,
        "Standard deviation of the initial biases; 0 begins with the greedy text.",
        least=0,
    )
    noise: float = option(
        0.01,
        "Mean and standard deviation of the noise added to the biases after each step.",
        least=0,
    )
    gradients: Gradients = option(
        "accumulate",
        "Gradients of a step: accumulate, the sum over all iterations so far, as in the authors' "
        "program, which never sets them to zero; zero, those of the last iteration alone.",
    )
    fluency: float = option(
        0.1,
        "Weight of the base's loss. The authors' program uses 0.1, and with keywords 1.",
        least=0,
    )
    targets: Literal["soft", "hard"] = option(
        "soft",
        "Tokens in the base's loss: soft, straight-through as input and as target, the mean over "
        "the continuation; hard, straight-through as input only, the mean over prompt and "
        "continuation, as in the authors' program.",
    )
    ramp: Literal["to-one", "from-zero"] = option(
        "to-one",
        "Weights w_t of the biases with keywords: 1/T, …, 1; or 0, …, (T − 1)/T, as in the "
        "authors' program.",
    )
    keep: Literal["energy", "labels"] = option(
        "energy",
        "Text to keep among those with equally many keywords: the one of least energy, or of "
        "least energy of the labels, as in the authors' program.",
    )
    positions: Literal["continuation", "text", "one-hot"] = option(
        "continuation",
        "Positions that a keyword may take in its energy: continuation, those of the continuation; "
        "text, also those of the prompt, with the base's log-probabilities there; one-hot, also "
        "those of the prompt, where the prompt's tokens as one-hot vectors take the place of the "
        "base's logits, as in the authors' program.",
    )
    keyword_weight: float = option(0.3, "Weight of the energy of keywords.", least=0)
    until: Literal["all", "any"] = option(
        "all", "Keywords that complete a text: all of them, or any one, as in the authors' program."
    )
    repetition_penalty: float = option(
        1.2, "Penalty θ of `Decoding`, if the decoding has none.", above=0
    )

    def steps(self, has_keywords: bool) -> int:
        """Returns the number of texts that are written."""
        return self.iterations or (100 if has_keywords else 8)

    def rate(self, has_keywords: bool) -> float:
        """Returns the learning rate."""
        return self.learning_rate or (0.4 if has_keywords else 0.025)


class Biases:
    """b_t and w_t of the T positions of a text, in float32.

    Args:
        ramp: whether w_t is fixed, as for keywords: t / T for t = 1 … T, or for t = 0 … T − 1; if
            not, it is learnt, from 1 on.
        generator: of the text; draws the biases to begin with and the noise.
    """

    def __init__(
        self,
        tokens: int,
        width: int,
        options: BiasOptions,
        ramp: bool,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self._options, self._generator = options, generator
        b = options.initial * torch.randn(tokens, width, generator=generator)
        self.b = b.to(device).requires_grad_()
        first = int(options.ramp == "to-one")
        w = torch.arange(first, first + tokens) / tokens if ramp else torch.ones(tokens)
        self.w = w.to(device).requires_grad_(not ramp)
        self._optimizer = torch.optim.AdamW(
            [self.b] if ramp else [self.b, self.w],
            lr=options.rate(ramp),
            weight_decay=options.weight_decay,
        )

    @property
    def weighted(self) -> torch.Tensor:
        """w_t b_t: (tokens, d)."""
        return self.w[:, None] * self.b

    def gumbel(self, n: int, before: int = 0) -> torch.Tensor:
        """Gumbel noise: (before + tokens, n)."""
        u = torch.rand(before + len(self.b), n, generator=self._generator, dtype=torch.float64)
        tiny = torch.finfo(torch.float64).tiny
        return -(-u.clamp(min=tiny).log()).clamp(min=tiny).log().to(self.b)

    def step(self) -> None:
        """One step along the gradients, then noise."""
        self._optimizer.step()
        if self._options.gradients == "zero":
            self._optimizer.zero_grad()
        if self._options.noise:
            normal = torch.randn(self.b.shape, generator=self._generator).to(self.b)
            with torch.no_grad():
                self.b += self._options.noise * (1 + normal)


@dataclass(frozen=True)
class BiasGoal:
    """What is wanted of one text.

    Attributes:
        id: of the request.
        prompt: ids that the base reads, BOS included.
        labels: attribute -> place of the label.
        keywords: words that the continuation should have.
        tokens: the ids of the keywords.
    """

    id: str
    prompt: Sequence[int]
    labels: Mapping[str, int]
    keywords: tuple[str, ...]
    tokens: Sequence[int]


@dataclass(frozen=True)
class Iterate:
    """A text on the way.

    Attributes:
        ids: its tokens.
        energy: what the search makes small.
        coverage: share of the keywords that it has; 1 if any is enough and there.
        is_labelled: whether every reader finds the wanted label likelier than all others.
        rank: what decides between texts with as many keywords; the least is best.
    """

    ids: list[int]
    energy: float
    coverage: float
    is_labelled: bool
    rank: float


@dataclass
class BiasOutcome:
    """What a search made of a request.

    Attributes:
        best: of the iterates, the one with most keywords; among equals, of least rank.
        iterations: texts that were written.
        energies: of all iterates, in their order.
        forward_passes, backward_passes: rows sent through any model, and back.
    """

    best: Iterate | None
    energies: list[float]
    forward_passes: int
    backward_passes: int = 0


class BiasSearch:
    """Texts of requests of the same attributes.

    Args:
        readers: attribute -> what reads the labels.
        decoding: its `max_new_tokens` and its `repetition_penalty` apply.
        seed: of the run.
    """

    def __init__(
        self,
        base: LanguageModel,
        goals: Sequence[BiasGoal],
        readers: Mapping[str, LabelReader],
        options: BiasOptions,
        decoding: Decoding,
        seed: int,
    ) -> None:
        self._base, self._goals, self._readers, self._options = base, list(goals), readers, options
        self._tokens = decoding.max_new_tokens
        penalty = decoding.repetition_penalty
        self._penalty = options.repetition_penalty if penalty == 1 else penalty
        self._has_keywords = bool(goals[0].keywords)
        self._is_hard = options.targets == "hard"
        skip = [1] * len(goals) if self._is_hard else None  # of the first token nothing is known
        self._prompts = ReadPrompts(
            base.model, [goal.prompt for goal in goals], base.bos_id, base.device, skip=skip
        )
        self._in_prompt: dict[int, torch.Tensor] = {}
        self._banned = unwanted(base)
        width = base.model.get_output_embeddings().weight.shape[1]
        self._biases = [
            Biases(
                self._tokens,
                width,
                options,
                self._has_keywords,
                stream(seed, goal.id, "biases"),
                base.device,
            )
            for goal in goals
        ]
        self.outcomes = [
            BiasOutcome(None, [], 1 + sum(reader.once for reader in readers.values()))
            for _ in goals
        ]
        self._live = list(range(len(goals)))

    def run(self) -> list[BiasOutcome]:
        """Writes and tunes until the texts are done or the iterations are over."""
        steps = self._options.steps(self._has_keywords)
        for iteration in range(steps):
            rollout, energy, label_energies, labelled = self._write()
            ranks = label_energies if self._options.keep == "labels" else energy
            going = self._record(rollout, energy.tolist(), ranks.tolist(), labelled.tolist())
            if not going or iteration == steps - 1:
                break
            kept = torch.tensor(going, device=energy.device)
            torch.autograd.backward(energy[kept].sum())
            del rollout, energy, label_energies, ranks
            self._step(going)
            if len(going) < len(self._live):
                self._keep(going)
        return self.outcomes

    def saved(self) -> int:
        """Bytes that the graph of one iteration keeps."""
        saved = SavedTensors(self._base.model)
        with saved.counting():
            graph = self._write()
        del graph
        return saved.bytes

    def _write(self) -> tuple[Rollout, torch.Tensor, torch.Tensor, torch.Tensor]:
        """The texts under the biases as they are, their energies, those of the labels alone, and
        whether they have the labels that are wanted: (rows,) each."""
        biases = torch.stack([self._biases[i].weighted for i in self._live])
        rollout = roll_out(
            self._base,
            self._prompts,
            biases,
            penalty=self._penalty,
            banned=self._banned,
            with_states=any(reader.reads_states for reader in self._readers.values()),
            hard_targets=self._is_hard,
        )
        energy = self._options.fluency * self._loss(rollout)
        label_energies = torch.zeros_like(energy)
        labelled = torch.ones(len(energy), dtype=torch.bool, device=energy.device)
        for attribute, reader in self._readers.items():
            logits = reader.logits(rollout).to(energy)
            places = [self._goals[i].labels[attribute] for i in self._live]
            labels = torch.tensor(places, device=energy.device)
            label_energies = label_energies + label_energy(logits, labels)
            labelled &= logits.argmax(-1) == labels
        energy = energy + label_energies
        if longest := max(len(self._goals[i].tokens) for i in self._live):
            keyword_energies = (
                self._energies_in_continuations(rollout, longest)
                if self._options.positions == "continuation"
                else self._energies_anywhere(rollout)
            )
            energy = energy + self._options.keyword_weight * keyword_energies
        return rollout, energy, label_energies, labelled

    def _loss(self, rollout: Rollout) -> torch.Tensor:
        """Nats a token under the base: (rows,)."""
        if not self._is_hard:
            return -rollout.log_likelihood.mean(-1)
        prompts = rollout.prompts
        total = prompts.log_likelihood.to(rollout.log_likelihood) + rollout.log_likelihood.sum(-1)
        return -total / (prompts.mask.sum(-1) - 1 + self._tokens)

    def _energies_anywhere(self, rollout: Rollout) -> torch.Tensor:
        """The energy of keywords over the positions of prompts and continuations: (rows,)."""
        energies = []
        for row, i in enumerate(self._live):
            ids = torch.tensor([list(self._goals[i].tokens)], device=rollout.vectors.device)
            before = self._log_p_in_prompt(i)
            written = torch.stack(
                [choice.log_p(ids.expand(len(self._live), -1))[row] for choice in rollout.chosen]
            )
            noise = self._biases[i].gumbel(ids.shape[1], len(before))
            log_p = torch.cat([before.to(written), written])
            energies.append(keyword_energy(log_p[None], noise[None])[0])
        return torch.stack(energies)

    def _log_p_in_prompt(self, goal: int) -> torch.Tensor:
        """Returns ℓ of the goal's keyword tokens at the positions of its prompt, computed once:
        (positions, n).

        The first position has no log-probability, since nothing is read before it, but it has a
        one-hot vector e; log softmax(e)_k is 1[e_k = 1] − log(V − 1 + exp 1).
        """
        if goal not in self._in_prompt:
            prompt = torch.tensor(list(self._goals[goal].prompt), device=self._base.device)
            tokens = torch.tensor(list(self._goals[goal].tokens), device=self._base.device)
            if self._options.positions == "one-hot":
                size = len(self._base.model.get_output_embeddings().weight)
                log_p = (prompt[:, None] == tokens).float() - math.log(size - 1 + math.e)
            else:
                with torch.no_grad():
                    logits = self._base.model(input_ids=prompt[None]).logits[0, :-1]
                log_p = float32_or_wider(logits).log_softmax(-1)[:, tokens]
            self._in_prompt[goal] = log_p
        return self._in_prompt[goal]

    def _energies_in_continuations(self, rollout: Rollout, longest: int) -> torch.Tensor:
        device = rollout.vectors.device
        keyword_rows = [list(self._goals[i].tokens) for i in self._live]
        ids = torch.from_numpy(padded(keyword_rows, 0)).to(device)
        mask = torch.from_numpy(token_mask(keyword_rows)).to(device).bool()
        gumbel = torch.zeros(len(keyword_rows), self._tokens, longest, device=device)
        for row, (i, tokens) in enumerate(zip(self._live, keyword_rows, strict=True)):
            gumbel[row, :, : len(tokens)] = self._biases[i].gumbel(len(tokens))
        return keyword_energy(rollout.log_p(ids), gumbel, mask)

    def _record(
        self,
        rollout: Rollout,
        energies: Sequence[float],
        ranks: Sequence[float],
        labelled: Sequence[bool],
    ) -> list[int]:
        """Notes what was written; returns the rows that go on."""
        going = []
        each = self._tokens - 1 + sum(reader.each for reader in self._readers.values())
        texts = rollout.tokens.tolist()
        for row, (i, ids, energy) in enumerate(zip(self._live, texts, energies, strict=True)):
            goal, outcome = self._goals[i], self.outcomes[i]
            outcome.forward_passes += each
            outcome.energies.append(energy)
            coverage = self._coverage(goal, ids)
            iterate = Iterate(ids, energy, coverage, labelled[row], ranks[row])
            if outcome.best is None or _rank(iterate) < _rank(outcome.best):
                outcome.best = iterate
            if goal.keywords and iterate.coverage == 1 and iterate.is_labelled:
                outcome.best = iterate
            else:
                going.append(row)
        return going

    def _coverage(self, goal: BiasGoal, ids: Sequence[int]) -> float:
        if not goal.keywords:
            return 1.0
        text = self._base.continuation(goal.prompt, ids)
        sample = Sample(goal.id, text, control={"keywords": goal.keywords})
        share = float(KeywordsCoverage(typography="exact").score([sample]).values[0])
        return float(share > 0) if self._options.until == "any" else share

    def _step(self, going: Sequence[int]) -> None:
        each = self._tokens - 1 + sum(reader.each for reader in self._readers.values())
        for row in going:
            self.outcomes[self._live[row]].backward_passes += each
            self._biases[self._live[row]].step()

    def _keep(self, going: Sequence[int]) -> None:
        rows = torch.tensor(going, device=self._base.device)
        self._prompts.keep(rows)
        for reader in self._readers.values():
            reader.keep(rows)
        self._live = [self._live[row] for row in going]


def _rank(iterate: Iterate) -> tuple[float, float]:
    return -iterate.coverage, iterate.rank
