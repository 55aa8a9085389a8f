"""The base after a past that gradients have changed: p̃ of PPLM, as a term.

Rows never mix, so the gradient of the sum over rows is, in the rows of each input, the gradient of
each row's own energy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch

from levelfield.core.options import Options, option
from levelfield.core.sample import Control
from levelfield.generation.logits.pace import BoundRegulator, Regulator
from levelfield.generation.logits.readers import Readers, Texts
from levelfield.generation.logits.terms import Bound, Step, StepFunction, Term
from levelfield.generation.open_rows import OpenRows, Past
from levelfield.generation.techniques._energies.energies import bag_energy, kl_energy, label_energy
from levelfield.models.torch.decoding import normalised

TINY = 1e-15
"""No norm is smaller, so that a gradient of 0 changes nothing."""


class StateHead(Protocol):
    """Logits of labels, given the mean state of a text's tokens.

    Attributes:
        counts_bos: whether BOS is one of them.
    """

    @property
    def counts_bos(self) -> bool: ...

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """(rows, d) → (rows, labels)."""
        ...


@dataclass(frozen=True)
class Goal:
    """What one attribute asks of the texts: words that should come, or a label of a head.

    Attributes:
        target: the control of a row -> the tokens of its bag, or the place of its label.
        head: predicts labels; None for a bag.
    """

    target: Callable[[Control], frozenset[int] | int]
    head: StateHead | None = None


@dataclass(frozen=True, kw_only=True)
class Perturbation(Options):
    """How the past is changed at every step (Dathathri et al. 2020, section 3.2 and appendix).

    ΔK begins at 0; m times, in each layer and row, ΔK ← ΔK − a g / ‖g‖^γ, where g is the gradient
    of the row's energy in ΔK, keys and values together.
    """

    strength: float = option(0.1, "Size a of a step in ‖g‖^(1 − γ); 0 is the base.")
    bag_scale: float = option(
        0.3,
        "Factor of a if all goals are bags: a step reaches words more directly than a label.",
        least=0,
    )
    iterations: int = option(3, "Number m of gradients at every step.", least=1)
    gamma: float = option(
        1.0,
        "Exponent γ: a gradient is divided by ‖g‖^γ. With 1, every change of a layer has the "
        "length a, whatever the gradient.",
        least=0,
    )
    fusion: float = option(0.9, "Share γ_gm of p̃ in the geometric mean with the base.", least=0)
    kl: float = option(0.01, "Weight of KL(p̃ ‖ p) in the energy.", least=0)
    window: int = option(
        0, "Number of tokens of the past that are changed, if it has more; 0 for all.", least=0
    )
    window_at: Literal["last", "first"] = option(
        "last",
        "Tokens of the window: the last ones, as in the paper; or the first ones, including BOS, "
        "as in the authors' program.",
    )
    decay: bool = option(
        False, "Multiply the gradients of a window of w tokens by 1/w, 2/w, …, 1, in order."
    )
    grad_length: int = option(
        0,
        "Number of tokens of the continuation before which the past is changed; 0 for all. The "
        "authors' program uses 10,000.",
        least=0,
    )
    horizon: int = option(1, "Number of expected tokens after the text that heads read.", least=1)

    def weights(self, mask: torch.Tensor) -> torch.Tensor:
        """Returns what the gradients of the past's tokens are multiplied with: (rows, tokens).

        Args:
            mask: (rows, tokens), 0 for padding on the left.
        """
        if not self.window:
            return mask
        place, length = mask.cumsum(-1), mask.sum(-1, keepdim=True)
        rank = place if self.window_at == "first" else place - (length - self.window)
        inside = (rank >= 1) & (rank <= self.window)
        weights = inside * (rank / self.window) if self.decay else inside.float()
        return torch.where(length > self.window, weights, mask.float())


@dataclass(frozen=True, eq=False)
class PerturbedLM(Term):
    """log p̃(x_t | x_<t): the base after a past that makes the energies of goals small.

    At each step the last token is read after K + ΔK, and the past goes on as changed; the base's
    own past stays beside it. The energy of a row is Σ −log Σ_{w in bag} p̃(w) over bags, Σ −log
    P(label | h̄) over heads, and KL(p̃ ‖ p). The mean state is
    h̄ = (Σ_{i<t} h_i + h̃_t + Σ_{j≤n} ĥ_{t+j}) / (t + n): h of the base's text without BOS; h̃_t,
    through which no gradient flows, of its last token after the changed past; ĥ_{t+1} what the
    base makes, after its own past, of the embedding that p̃ expects. Where all goals are bags,
    ‖g‖ is the largest norm of the row and layer so far.

    Attributes:
        rows: the base, which has read what the step has.
        goals: at least one.
        how: a, m, γ and so on.
        bos_id: where it begins a row, it is not part of the text.
        pace: multiplies a at each step of each row; None for 1.
    """

    rows: OpenRows
    goals: Sequence[Goal]
    how: Perturbation
    bos_id: int
    pace: Regulator | None = None

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        pace = self.pace.bind(controls) if self.pace else None
        targets = [[goal.target(control) for control in controls] for goal in self.goals]
        perturbed = _Perturbed(self.rows, self.goals, targets, self.how, self.bos_id, pace)
        return StepFunction(readers.add(perturbed).log_p)


class _Perturbed:
    """A past beside the base's own, and what gradients change in it."""

    def __init__(
        self,
        rows: OpenRows,
        goals: Sequence[Goal],
        targets: Sequence[Sequence[frozenset[int] | int]],
        how: Perturbation,
        bos_id: int,
        pace: BoundRegulator | None,
    ) -> None:
        self._rows, self._how, self._bos_id, self._pace = rows, how, bos_id, pace
        self._energies = [
            _BagOfRows(row_targets) if goal.head is None else _LabelOfRows(goal.head, row_targets)
            for goal, row_targets in zip(goals, targets, strict=True)
        ]
        self._has_heads = any(goal.head for goal in goals)
        self._past: Past = []
        self._sum = self._bos = self._begins = torch.empty(0)
        self._norms: torch.Tensor | None = None
        self._step = 0
        self.passes = 0
        self.backward_passes = 0

    def start(self, texts: Texts) -> None:
        """The past is the base's own, but for the last token, which the step reads."""
        self._past = [(k[:, :, :-1], v[:, :, :-1]) for k, v in self._rows.past]
        rows = torch.arange(len(texts.mask), device=texts.mask.device)
        first = texts.mask.argmax(-1)
        self._begins = (texts.ids[rows, first] == self._bos_id).long()
        is_text = (texts.mask.cumsum(-1) > self._begins[:, None])[:, :-1, None]
        self._sum = (self._rows.states[:, :-1].float() * is_text).sum(1)
        self._bos = self._rows.states[rows, first].float() * self._begins[:, None]

    def read(self, tokens: torch.Tensor) -> None:
        """The base reads them."""
        if self._pace:
            self._pace.read(tokens)

    def keep(self, rows: torch.Tensor) -> None:
        self._past = [(k[rows], v[rows]) for k, v in self._past]
        self._sum, self._bos = self._sum[rows], self._bos[rows]
        self._begins = self._begins[rows]
        if self._norms is not None:
            self._norms = self._norms[:, rows]
        for energy in self._energies:
            energy.keep(rows)
        if self._pace:
            self._pace.keep(rows)

    def log_p(self, step: Step) -> torch.Tensor:
        """log p̃ of the next token: (rows, vocabulary)."""
        a = self._how.strength * (1.0 if self._has_heads else self._how.bag_scale)
        size = torch.full((len(step.ids),), a, device=step.ids.device)
        if self._pace:
            size = size * self._pace.values(step)
        self._step += 1
        past = self._past
        if self._step <= (self._how.grad_length or self._step):
            past = _plus(past, self._change(step, size))
        reading = self._rows.read_after(past, step.mask, step.ids[:, -1])
        self.passes += 1
        self._past = reading.past
        is_text = step.mask.sum(-1) > self._begins
        self._sum = self._sum + self._rows.states[:, -1].float() * is_text[:, None]
        return normalised(reading.logits)

    def _change(self, step: Step, size: torch.Tensor) -> Past:
        """ΔK of the step.

        Args:
            size: a of each row, (rows,).
        """
        change = [(torch.zeros_like(k), torch.zeros_like(v)) for k, v in self._past]
        weights = self._how.weights(step.mask[:, :-1])[:, None, :, None].to(change[0][0].dtype)
        for _ in range(self._how.iterations):
            slopes = [(weights * k, weights * v) for k, v in self._slopes(step, change)]
            norms = torch.stack(
                [(_squares(k) + _squares(v)).sqrt() for k, v in slopes]
            )  # (layers, rows)
            if not self._has_heads:
                norms = norms if self._norms is None else torch.maximum(norms, self._norms)
                self._norms = norms
            scales = size / norms.clamp(min=TINY) ** self._how.gamma
            change = [
                (k - _each(scale, k_slope), v - _each(scale, v_slope))
                for scale, (k, v), (k_slope, v_slope) in zip(scales, change, slopes, strict=True)
            ]
        return change

    def _slopes(self, step: Step, change: Past) -> Past:
        """Returns the gradient of each row's energy in ΔK."""
        leaves = [leaf.detach().requires_grad_() for layer in change for leaf in layer]
        with torch.enable_grad():
            layers = list(zip(leaves[::2], leaves[1::2], strict=True))
            energy = self._energy(step, _plus(self._past, layers))
            slopes = torch.autograd.grad(energy.sum(), leaves)
        return list(zip(slopes[::2], slopes[1::2], strict=True))

    def _energy(self, step: Step, past: Past) -> torch.Tensor:
        """Returns the energy of each row with its last token after a past: (rows,)."""
        reading = self._rows.read_after(past, step.mask, step.ids[:, -1])
        self.passes += 1
        self.backward_passes += 1
        log_p = normalised(reading.logits)
        mean = self._mean(step, reading.states, log_p) if self._has_heads else None
        energy = self._how.kl * kl_energy(log_p, step.plain)
        for goal_energy in self._energies:
            energy = energy + goal_energy(log_p, mean)
        return energy

    def _mean(self, step: Step, state: torch.Tensor, log_p: torch.Tensor) -> _Mean:
        """h̄, and what it is with BOS."""
        begins = self._begins[:, None]
        tokens = step.mask.sum(-1, keepdim=True) - begins
        total = self._sum + state.detach().float() * (tokens > 0)
        past, mask, p = self._rows.past, step.mask, log_p.exp()
        table = self._rows.embeddings
        for n in range(self._how.horizon):
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            expected = p.to(table.dtype) @ table[: p.shape[1]]
            expected_state, past = self._rows.states_after(past, mask, expected)
            self.passes += 1
            self.backward_passes += 1
            total = total + expected_state.float()
            if n + 1 < self._how.horizon:
                p = normalised(self._rows.head(expected_state)).exp()
        return _Mean(total, tokens + self._how.horizon, self._bos, begins)


class _Mean(NamedTuple):
    """Of states of a text: their sum (rows, d), their number (rows, 1), the state of BOS, 0 where
    the row has none, and whether it has one (rows, 1)."""

    total: torch.Tensor
    tokens: torch.Tensor
    bos: torch.Tensor
    begins: torch.Tensor

    def value(self, counts_bos: bool) -> torch.Tensor:
        """(rows, d)."""
        if counts_bos:
            return (self.total + self.bos) / (self.tokens + self.begins)
        return self.total / self.tokens


class _BagOfRows:
    """−log Σ p̃(w) over the bag of each row."""

    def __init__(self, bags: Sequence[frozenset[int] | int]) -> None:
        self._bags = [sorted(bag) for bag in bags if isinstance(bag, frozenset)]
        self._mask: torch.Tensor | None = None

    def __call__(self, log_p: torch.Tensor, _: _Mean | None) -> torch.Tensor:
        if self._mask is None:
            self._mask = torch.zeros(log_p.shape, dtype=torch.bool, device=log_p.device)
            for row, bag in zip(self._mask, self._bags, strict=True):
                row[bag] = True
        return bag_energy(log_p, self._mask)

    def keep(self, rows: torch.Tensor) -> None:
        if self._mask is not None:
            self._mask = self._mask[rows]


class _LabelOfRows:
    """−log P(label | h̄) of the label that each row wants."""

    def __init__(self, head: StateHead, labels: Sequence[frozenset[int] | int]) -> None:
        self._head = head
        self._labels = torch.tensor([label for label in labels if isinstance(label, int)])

    def __call__(self, log_p: torch.Tensor, mean: _Mean | None) -> torch.Tensor:
        assert mean is not None
        logits = self._head(mean.value(self._head.counts_bos))
        return label_energy(logits, self._labels.to(log_p.device))

    def keep(self, rows: torch.Tensor) -> None:
        self._labels = self._labels[rows.to(self._labels.device)]


def _plus(past: Past, change: Past) -> Past:
    """Returns a past with a change added."""
    return [
        (k + k_change, v + v_change)
        for (k, v), (k_change, v_change) in zip(past, change, strict=True)
    ]


def _squares(tensor: torch.Tensor) -> torch.Tensor:
    """Their sum in each row: (rows,)."""
    return tensor.float().square().flatten(1).sum(-1)


def _each(scale: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor with its rows scaled: scale (rows,), tensor (rows, heads, tokens, width)."""
    return (scale[:, None, None, None] * tensor.float()).to(tensor.dtype)
