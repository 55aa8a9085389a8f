"""Linear heads: logistic regression on the states of an encoder or a causal language model, as a
classifier of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file, save
from scipy.special import expit, log_softmax, softmax

from levelfield.core.arrays import Bools, Floats, Singles
from levelfield.core.errors import ModelError, UserError
from levelfield.core.paths import existing_path
from levelfield.core.progress import Progress, no_progress
from levelfield.io.json_input import read_json
from levelfield.models.causal_tokens import Bos, CausalTokens, rule
from levelfield.models.files import check_finite, load_tokenizer
from levelfield.models.load import load
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OFFLINE_LM, OFFLINE_MODEL, Resolved, resolve
from levelfield.models.small.shapes import SmallClassifier, write_config
from levelfield.models.tokens import batches, unique
from levelfield.models.torch.causal import TorchCausalModel
from levelfield.models.torch.classifier import positions
from levelfield.models.torch.early_exit import with_lower_layers
from levelfield.models.torch.loading import ForwardPass, load_pretrained, pick_device
from levelfield.text.natural import natural

MODEL_TYPE = "levelfield-linear"
ITERATIONS = 200


@dataclass(frozen=True)
class Encoder:
    """The model whose states a head reads.

    Attributes:
        encoder: hub name with its commit, folder, `offline/minilm` or `offline/smollm2`.
        revision: commit or checksum; another one would make other states.
        layers: number of last layers that are read, the word vectors below them being one; all
            where there are fewer.
        depth: the last layer that is read; 0 is the model's last.
        bos: whether BOS precedes every text that a causal model reads.
    """

    encoder: str
    revision: str
    layers: int
    depth: int = 0
    bos: bool = True

    @classmethod
    def of(
        cls, name: str, resolved: Resolved, layers: int, depth: int = 0, *, bos: bool = True
    ) -> Encoder:
        """Returns the encoder as a head trained now names it."""
        if (path := existing_path(name)) and path.is_dir():
            name = str(resolved.path)
        elif name not in (OFFLINE_MODEL, OFFLINE_LM):
            name = f"{resolved.name}@{resolved.revision}"
        return cls(name, resolved.revision, layers, depth, bos)

    def as_config(self) -> dict[str, Any]:
        """Returns what `config.json` says of it; a depth of 0 and BOS go unsaid, as in older
        folders."""
        unsaid = {"depth": 0, "bos": True}
        return {k: value for k, value in asdict(self).items() if unsaid.get(k, ...) != value}


class States(ForwardPass):
    """Means of a model's states over the tokens of a text, concatenated over several layers. Of a
    text longer than the model's limit, the beginning is read.

    Where a causal model reads BOS first, the state of BOS is left out of the mean. The model was
    trained on text as people write it, so tokenised or lower-case text gets spacing and capitals
    back.

    Args:
        layers: number of layers that are read, up to `depth`; the word vectors are layer 0.
        depth: the last layer that is read; 0 is the model's last. Layers above are not run, except
            the next: a norm changes the states of the last layer that is run.
        scorer: the same model if it scores texts in this process: weights are shared, and texts
            that it has read are not read again.
        bos: whether BOS precedes every text that a causal model reads.

    Attributes:
        reads_bos: the same for this model; true for an encoder, which has no such choice.
    """

    def __init__(
        self,
        resolved: Resolved,
        layers: int,
        loading: Loading = AS_USUAL,
        *,
        depth: int = 0,
        bos: Bos = "auto",
        scorer: TorchCausalModel | None = None,
    ) -> None:
        loading = loading.replace(dtype="float32")
        self._is_causal = resolved.kind == "causal"
        if scorer:
            model, tokenizer = scorer.network, load_tokenizer(resolved)
        else:
            model, tokenizer = load_pretrained(
                resolved, "causal" if self._is_causal else "encoder", loading
            )
        n = int(model.config.num_hidden_layers)
        if depth > n:
            raise UserError(f"depth={depth}: model '{resolved.name}' has the layers 0 to {n}")
        limit = min(int(tokenizer.model_max_length), positions(model), 512)
        device = pick_device(loading.device)
        self._bos, self.reads_bos = list[int](), True
        if self._is_causal:
            tokens = CausalTokens(tokenizer, model.config, bos=rule(resolved, bos))
            self._bos, self.reads_bos = tokens.opening, tokens.reads_bos
            model = with_lower_layers(model, min(n, depth + 1) if depth else n).base_model
        super().__init__(model, tokenizer, limit - len(self._bos), device, loading.batch_tokens)
        if self._is_causal:  # no token but BOS, whatever the tokenizer puts around a text
            self._tokens.before = self._tokens.after = []
        self._depth = depth or n
        self._layers = min(layers, self._depth + 1)
        self._shared = tuple(range(self._depth - self._layers + 1, self._depth + 1))
        # neither word vectors nor what a norm makes of the last layer are states after a layer
        self._scorer = scorer if self._shared[0] > 0 and self._depth < n else None
        if self._scorer:
            self._scorer.keep_means(self._shared)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns vocabulary ids of texts as the model reads them, without special tokens."""
        return super().token_ids(self._as_read(texts))

    def of(
        self, texts: Sequence[str], *, progress: Progress = no_progress
    ) -> tuple[Singles, Bools]:
        """Returns states (texts, layers · width), NaN for a text without tokens; and which texts
        were cut."""
        ids, cut = self._tokens.fit_texts(self._as_read(texts), self._limit)
        width = self._layers * int(self._model.config.hidden_size)
        states = np.full((len(texts), width), np.nan, np.float32)
        shortest = self._tokens.around + 1
        new = []
        for i, row in enumerate(ids):
            kept = self._scorer.kept_means(row, self._shared) if self._scorer else None
            if kept is None:
                new.append(i)
            else:
                states[i] = kept
        progress(len(ids) - len(new))
        for rows, batch in batches([ids[i] for i in new], self._batch_tokens, shortest=shortest):
            states[[new[row] for row in rows]] = self._means([self._bos + list(r) for r in batch])
            progress(len(rows))
        return states, np.array(cut, np.bool_)

    def continuation_means(self, pairs: Sequence[tuple[str, str]]) -> tuple[Singles, Bools]:
        """Returns the means over the tokens of each continuation, read after its prompt:
        (pairs, layers · width), NaN where nothing follows; and which were cut. Prompt and
        continuation are tokenised separately and read unchanged. Of a continuation the beginning is
        read, up to half of the model's limit, and of a prompt the end.
        """
        prompts, rests = (self._tokens.ids([pair[place] for pair in pairs]) for place in (0, 1))
        most = self._limit // 2
        kept = [rest[:most] for rest in rests]
        before = [
            prompt[max(0, len(prompt) - self._limit + len(rest)) :]
            for prompt, rest in zip(prompts, kept, strict=True)
        ]
        width = self._layers * int(self._model.config.hidden_size)
        states = np.full((len(pairs), width), np.nan, np.float32)
        readable = [i for i, rest in enumerate(kept) if rest]
        ids = [before[i] + kept[i] for i in readable]
        for rows, batch in batches(ids, self._batch_tokens):
            places = [readable[row] for row in rows]
            skipped = [len(before[place]) for place in places]
            states[places] = self._means([self._bos + list(row) for row in batch], skipped)
        return states, np.array([len(rest) > most for rest in rests], np.bool_)

    def _as_read(self, texts: Sequence[str]) -> Sequence[str]:
        return [natural(text) for text in texts] if self._is_causal else texts

    def _means(self, ids: Sequence[Sequence[int]], skipped: Sequence[int] = ()) -> Singles:
        """Returns the means over the tokens of each row after BOS and after `skipped` more."""
        batch = self._batch(ids)
        with torch.inference_mode():
            states = self._model(**batch, output_hidden_states=True).hidden_states
            weights = batch["attention_mask"][..., None].float()
            weights[:, : len(self._bos)] = 0
            for row, count in zip(weights, skipped, strict=False):
                row[: len(self._bos) + count] = 0
            read = states[: self._depth + 1][-self._layers :]
            means = [(state * weights).sum(1) / weights.sum(1) for state in read]
        pooled: Singles = torch.cat(means, 1).cpu().numpy()
        return pooled


@dataclass(frozen=True)
class Head:
    """Logits x · weight + bias: weight (width, labels), bias (labels,)."""

    weight: Singles
    bias: Singles

    def log_odds(self, x: Singles) -> Floats:
        return (x @ self.weight + self.bias).astype(np.float64)


def fit_head(x: Singles, targets: Floats, times: npt.NDArray[Any], l2: float) -> Head:
    """Returns the head with the least Σ times · cross-entropy / Σ times + l2/2 · |W|², by L-BFGS.

    W acts on x with each column at mean 0 and deviation 1; the head that is given back takes x as
    it is.

    Args:
        x: (texts, width).
        targets: (texts, labels), rows that sum to 1.
        times: (texts,) weights.
    """
    from scipy.optimize import minimize

    share = times / times.sum()
    mean = share @ x
    deviation = np.sqrt(share @ (x - mean) ** 2) + 1e-6
    z = ((x - mean) / deviation).astype(np.float32)
    width, labels = x.shape[1], targets.shape[1]

    def objective(flat: Floats) -> tuple[float, Floats]:
        w, b = flat[:-labels].reshape(width, labels), flat[-labels:]
        log_p = log_softmax(z @ w.astype(np.float32) + b, axis=1)
        loss = -(share @ (targets * log_p).sum(axis=1)) + l2 / 2 * (w**2).sum()
        slope = share[:, None] * (np.exp(log_p) - targets)
        w_gradient = z.T @ slope.astype(np.float32) + l2 * w
        return float(loss), np.concatenate([w_gradient.ravel(), slope.sum(axis=0)])

    start = np.zeros((width + 1) * labels)
    best = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS}
    ).x
    w = best[:-labels].reshape(width, labels) / deviation[:, None]
    return Head(w.astype(np.float32), (best[-labels:] - mean @ w).astype(np.float32))


class LinearClassifier(SmallClassifier):
    """P(label | text) by a linear head on an encoder's states."""

    def __init__(self, head: Head, labels: Sequence[str], encoder: Encoder, states: States) -> None:
        self._head = head
        super().__init__(labels)
        self._encoder = encoder
        self._states = states

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the encoder's ids of texts, without special tokens."""
        return self._states.token_ids(texts)

    def _probabilities(self, texts: Sequence[str]) -> tuple[Floats, Bools]:
        x, cut = self._states.of(texts)
        return softmax(self._head.log_odds(x), axis=1), cut

    def save(self, folder: Path, *, attribute: str) -> None:
        """Leaves config.json and head.safetensors in a folder; the encoder stays where it is."""
        tensors = {"weight": self._head.weight, "bias": self._head.bias}
        (folder / "head.safetensors").write_bytes(save(tensors))
        write_config(folder, MODEL_TYPE, attribute, self.labels, **self._encoder.as_config())


class ContinuationHead:
    """P(a continuation belongs to its prompt) by a linear head on the states of its tokens."""

    def __init__(self, head: Head, states: States) -> None:
        self._head, self._states = head, states

    def values(self, pairs: Sequence[tuple[str, str]]) -> tuple[Floats, Bools]:
        """Returns P for each (prompt, continuation), NaN where nothing follows: (pairs,); and
        whether the model saw less than all of the continuation, (pairs,)."""
        distinct, place = unique(pairs)
        x, cut = self._states.continuation_means(distinct)
        return expit(self._head.log_odds(x)[:, 0])[place], cut[place]


def load_linear(name: str, loading: Loading) -> LinearClassifier:
    """Returns the linear head in a folder, on its encoder.

    Raises:
        ModelError: its files are damaged, the encoder is missing, or it has changed.
    """
    config, encoder, head, states = _read(name, loading, shared=True)
    return LinearClassifier(head, config["labels"], encoder, states)


def load_continuation(name: str, loading: Loading) -> ContinuationHead:
    """Returns the head of continuations in a folder, on its causal model.

    Raises:
        ModelError: its files are damaged, the model is missing, or it has changed.
    """
    _, _, head, states = _read(name, loading)
    return ContinuationHead(head, states)


def _read(
    name: str, loading: Loading, *, shared: bool = False
) -> tuple[Any, Encoder, Head, States]:
    resolved = resolve(name, loading)
    config = read_json(resolved.path / "config.json")
    encoder = Encoder(
        config["encoder"],
        config["revision"],
        config["layers"],
        config.get("depth", 0),
        config.get("bos", True),
    )
    tensors = load_file(resolved.path / "head.safetensors")
    head = Head(tensors["weight"], tensors["bias"])
    check_finite(resolved, tensors.items())
    below = resolve(encoder.encoder, loading)
    if below.revision != encoder.revision:
        raise ModelError(
            f"model '{resolved.name}' was trained on {encoder.encoder} with the checksum "
            f"{encoder.revision[:12]}, and here it has {below.revision[:12]}; train it again"
        )
    scorer = None
    if shared and below.kind == "causal" and encoder.bos:
        loading = loading.replace(dtype="float32")
        model = load("causal", encoder.encoder, loading)
        scorer = model if isinstance(model, TorchCausalModel) and model.tokens.reads_bos else None
    states = States(
        below,
        encoder.layers,
        loading,
        depth=encoder.depth,
        scorer=scorer,
        bos=encoder.bos,
    )
    return config, encoder, head, states
