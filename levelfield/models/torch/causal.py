"""P(text) from causal language models: every token given those before it.

How a text begins is the rule of `causal_tokens`. No end token is scored.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Floats, Ints, Singles
from levelfield.core.errors import ModelError
from levelfield.models.causal import BatchedCausalModel, TokenTree, has_windows
from levelfield.models.causal_tokens import Bos, CausalTokens, rule
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve_causal
from levelfield.models.tokens import BYTES_OF_A_TOKEN, RecentResults, buckets, padded
from levelfield.models.torch.caches import cache_of, with_cache
from levelfield.models.torch.decoder_layers import decoder_layers
from levelfield.models.torch.loading import batch_tokens_on, load_pretrained
from levelfield.models.torch.softmax import Block, Head, token_log_p


def attention(
    trees: Sequence[TokenTree], device: torch.device, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """Returns what a model reads beside the ids of a batch of trees: each token attends to those on
    its way from the root, and its position is how many those are.

    The mask is added to the attention's logits: (trees, 1, nodes, nodes). Padding attends to
    itself, since a softmax over nothing is NaN.
    """
    longest = max(map(len, trees))
    sight = np.zeros((len(trees), 1, longest, longest), np.bool_)
    sight[:] = np.eye(longest, dtype=np.bool_)
    for row, tree in enumerate(trees):
        sight[row, 0, : len(tree), : len(tree)] = tree.sight()
    mask = torch.zeros(sight.shape, dtype=dtype, device=device)
    mask.masked_fill_(~torch.from_numpy(sight).to(device), torch.finfo(dtype).min)
    positions = torch.from_numpy(padded([tree.depths for tree in trees], 0))
    return {"attention_mask": mask, "position_ids": positions.to(device)}


def reads_trees(
    body: Callable[..., torch.Tensor], ids: torch.Tensor, config: Any, dtype: torch.dtype
) -> bool:
    """Returns whether the states of a tree are those of its paths.

    They are not where positions are told by the order of tokens alone (BLOOM's, XLNet's), nor in a
    recurrent model. A tree of a few tokens does not show layers that attend to a window only; the
    configuration does.

    Args:
        body: ids -> states or logits, (rows, tokens, d).
        ids: (1, tokens) that the model may read.
    """
    if has_windows(config):
        return False
    few = ids[0].tolist()
    tree = TokenTree(few[0])
    trunk = tree.walk(0, few[1:6])
    for fork, begin in ((-1, 6), (-1, 9), (len(trunk) // 2, 12)):
        tree.walk(trunk[fork], few[begin : begin + 3])
    tree.after, tree.scored = list(range(len(tree))), tree.ids
    with torch.inference_mode():
        try:
            states = body(
                torch.tensor([tree.ids], device=ids.device), **attention([tree], ids.device, dtype)
            )[0].float()
        except (TypeError, ValueError, RuntimeError, IndexError):
            return False
        for branch in tree.branches():
            ids_of_branch = torch.from_numpy(branch.ids)[None].to(ids.device)
            expected = body(ids_of_branch)[0, branch.after].float()
            if not _alike(states[branch.which], expected, dtype):
                return False
    return True


def _alike(states: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> bool:
    """Returns whether states (tokens, d) differ by the rounding of a deep network at most.

    30 layers in bfloat16 differ by 4 units of rounding; other positions or another sight change
    states by more than 16.
    """
    change = (states - expected).norm(dim=-1) / expected.norm(dim=-1)
    return bool((change <= max(1e-4, 16 * torch.finfo(dtype).eps)).all())


KeysAndValues = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""What the layers of a model keep of a prefix: (1, heads, tokens, d) each."""


def read_prefix(base: Any, ids: Sequence[int], device: torch.device) -> KeysAndValues:
    """Returns what the layers of a model keep of a prefix; nothing of one without tokens."""
    if not ids:
        return ()
    row = torch.tensor([ids], device=device)
    cache = cache_of(base(input_ids=row, use_cache=True))
    return [(layer.keys, layer.values) for layer in cache.layers]


def after_prefix(prefix: KeysAndValues, rows: int, tokens: int) -> dict[str, Any]:
    """Returns what a model reads beside the ids of rows that follow a prefix: (rows, tokens)."""
    if not prefix:
        return {}
    from transformers import DynamicCache

    length, device = prefix[0][0].shape[2], prefix[0][0].device
    cache = DynamicCache(
        [(k.expand(rows, -1, -1, -1), v.expand(rows, -1, -1, -1)) for k, v in prefix]
    )
    return {
        **with_cache(cache),
        "position_ids": torch.arange(length, length + tokens, device=device)[None],
        "attention_mask": torch.ones(rows, length + tokens, dtype=torch.long, device=device),
    }


def reads_after_prefix(
    body: Callable[..., torch.Tensor], base: Any, ids: torch.Tensor, dtype: torch.dtype
) -> bool:
    """Returns whether the states of tokens after a kept prefix are those of one pass over both.

    Args:
        body: ids -> states or logits, (rows, tokens, d).
        base: the model, without its head.
        ids: (1, tokens) that the model may read.
    """
    half = ids.shape[1] // 2
    with torch.inference_mode():
        try:
            prefix = read_prefix(base, ids[0, :half].tolist(), ids.device)
            rest = ids[:, half:].expand(2, -1)
            states = body(rest, **after_prefix(prefix, *rest.shape))[1].float()
        except (AttributeError, TypeError, ValueError, RuntimeError, IndexError):
            return False
        return _alike(states, body(ids)[0, half:].float(), dtype)


@contextlib.contextmanager
def states_after(network: Any, layers: Collection[int]) -> Iterator[dict[int, torch.Tensor]]:
    """Yields the states after these layers of each pass within, 1 being the lowest layer."""
    states: dict[int, torch.Tensor] = {}

    def see(layer: int, _module: Any, _input: Any, output: Any) -> None:
        states[layer] = output[0] if isinstance(output, tuple) else output

    modules = decoder_layers(network)[1] if layers else ()
    hooks = [
        modules[layer - 1].register_forward_hook(functools.partial(see, layer)) for layer in layers
    ]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()


Body = Callable[..., torch.Tensor]
"""Ids (rows, tokens) -> states (rows, tokens, d); more by name, as `attention` has it."""

WHOLE_LOGITS = 2**28
"""So many logits a batch may have where they are all taken at once: 1 GiB in float32."""


WHOLE_SIGHT = 2**28
"""So many pairs of tokens the attention mask of a batch of trees may have: 1 GiB in float32."""


KEPT_TOKENS = 2**12
"""So many tokens of prefixes are kept: 375 MB of a model with 30 layers and 192 numbers a key."""


class TorchCausalModel(BatchedCausalModel):
    """Causal checkpoints in PyTorch: GPT-2, BLOOM, Llama and their like.

    The softmax over the vocabulary is taken at positions of real tokens only, block by block, in
    float32 or better. Texts that begin alike are one pass where the model reads trees.

    Args:
        bos: whether BOS precedes every text.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        batch_tokens: int | None = None,
        bos: Bos = "auto",
    ) -> None:
        model.eval()
        self._device = next(model.parameters()).device
        super().__init__(
            CausalTokens(tokenizer, model.config, bos=bos),
            batch_tokens=batch_tokens_on(self._device, batch_tokens, on_cpu=2048),
        )
        self._block = Block.on(self._device)
        self._few = self._some_ids(model)
        self._body, self._head, is_whole = body_and_head(model, self._few)
        if is_whole:
            most = max(1, WHOLE_LOGITS // self.vocabulary_size)
            self._batch_tokens = min(self._batch_tokens, most)
        self._dtype = next(model.parameters()).dtype
        self._config = model.config.get_text_config()
        self._base = model.base_model
        self._prefixes: OrderedDict[tuple[int, ...], KeysAndValues] = OrderedDict()
        self.network = model
        self._wanted: tuple[int, ...] = ()
        self._means: RecentResults[tuple[int, ...], dict[int, Singles]] = RecentResults()
        check_causal(self._body, self._few, model)

    @property
    def tokens(self) -> CausalTokens:
        """Its tokenizer."""
        return self._tokens

    def keep_means(self, layers: Collection[int]) -> None:
        """Has the passes of `words_after` from now on keep the mean of the states after these
        layers over the tokens of a text, for `kept_means`."""
        if not {*layers} <= {*self._wanted}:
            self._wanted = tuple(sorted({*self._wanted, *layers}))
            self._means.clear()

    def kept_means(self, ids: Sequence[int], layers: Sequence[int]) -> Singles | None:
        """Returns the means over a text's tokens, one layer after the other, (layers · width,);
        None for a text that was not read lately."""
        means = self._means.get(tuple(ids))
        return None if means is None else np.concatenate([means[layer] for layer in layers])

    @functools.cached_property
    def _unigram_bos(self) -> Floats:
        with torch.inference_mode():
            bos = torch.tensor([[self._tokens.bos_id]], device=self._device)
            logits = self._head(self._body(bos)[0, 0], slice(None)).float()
            log_p: Floats = logits.log_softmax(-1).double().cpu().numpy()
        return log_p

    def unigram_bos(self) -> Floats:
        """Returns log p(t | BOS) of every token: (vocabulary,), from one forward of BOS, done
        once."""
        return self._unigram_bos

    @torch.inference_mode()
    def _log_p_at(
        self,
        inputs: Sequence[Ints],
        places: Sequence[Ints],
        tokens: Sequence[Ints],
        **how: Any,
    ) -> list[Floats]:
        """Returns the log-probabilities of one batch's tokens, each after a place in the inputs.

        Rows are padded on the right, so no scored position ever attends to padding: the model
        needs neither a mask beside the causal one nor positions other than its own.
        """
        ids = padded(inputs, self._tokens.bos_id)
        flat_places = [i * ids.shape[1] + row for i, row in enumerate(places)]
        distinct, which = np.unique(np.concatenate(flat_places), return_inverse=True)
        states = self._body(torch.from_numpy(ids).to(self._device), **how).flatten(0, 1)
        log_p = self._token_log_p(
            states[torch.from_numpy(distinct).to(self._device)],
            torch.from_numpy(which).to(self._device),
            torch.from_numpy(np.concatenate(tokens)).to(self._device),
        )
        return np.split(log_p.cpu().numpy(), np.cumsum([len(row) for row in places])[:-1])

    def _token_log_p(
        self, states: torch.Tensor, states_of_tokens: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """Returns what `token_log_p` does."""
        return token_log_p(
            self._head,
            states,
            states_of_tokens,
            tokens,
            vocabulary=self.vocabulary_size,
            block=self._block,
        )

    def _tree_log_p(self, trees: Sequence[TokenTree]) -> list[Floats]:
        """Returns the log-probabilities of each tree's scored tokens, read whole if possible."""
        whole = [
            i
            for i, tree in enumerate(trees)
            if tree.scored and len(tree) <= self.limit and self._reads_trees
        ]
        others = sorted(set(range(len(trees))) - set(whole))
        by_paths = super()._tree_log_p([trees[i] for i in others])
        log_p = dict(zip(others, by_paths, strict=True))
        longest = max((len(trees[i]) for i in whole), default=1)
        budget = min(self._batch_tokens, max(1, WHOLE_SIGHT // longest))
        for bucket in buckets([len(trees[i]) for i in whole], budget):
            mine = [trees[whole[i]] for i in bucket]
            with states_after(self.network, self._wanted) as states:
                batch_log_p = self._log_p_at(
                    [np.array(tree.ids) for tree in mine],
                    [np.array(tree.after) for tree in mine],
                    [np.array(tree.scored) for tree in mine],
                    **attention(mine, self._device, self._dtype),
                )
            if states:
                self._keep_means(mine, states)
            for i, values in zip(bucket, batch_log_p, strict=True):
                log_p[whole[i]] = values
        return [log_p[i] for i in range(len(trees))]

    def _keep_means(self, trees: Sequence[TokenTree], states: Mapping[int, torch.Tensor]) -> None:
        """Keeps the mean states of the texts of trees.

        Args:
            states: layer -> (trees, nodes, d).
        """
        for row, tree in enumerate(trees):
            key = tuple(tree.ids[1 : 1 + tree.text])
            if key and key not in self._means:
                means = {
                    layer: layer_states[row, 1 : 1 + tree.text].float().mean(0).cpu().numpy()
                    for layer, layer_states in states.items()
                }
                size = sum(mean.nbytes for mean in means.values())
                self._means.keep(key, means, tree.text + size // BYTES_OF_A_TOKEN)

    def _log_p_after(self, prefix: Sequence[int], texts: Sequence[Ints]) -> list[Floats]:
        """Returns the log-probabilities of the tokens of texts; the prefix is read once, and kept
        for the next texts after it."""
        if not self._reads_after_prefix:
            return super()._log_p_after(prefix, texts)
        *kept, last = prefix
        keys_and_values = self._read(tuple(kept))
        log_p: list[Floats] = [np.empty(0)] * len(texts)
        nonempty = [i for i, ids in enumerate(texts) if ids.size]
        # keys and values of the prefix are copied for each row, so they take room of the batch
        lengths = [len(texts[i]) + len(kept) for i in nonempty]
        for bucket in buckets(lengths, self._batch_tokens):
            mine = [nonempty[i] for i in bucket]
            batch_log_p = self._log_p_at(
                [np.concatenate([[last], texts[i][:-1]]) for i in mine],
                [np.arange(len(texts[i])) for i in mine],
                [texts[i] for i in mine],
                **after_prefix(keys_and_values, len(mine), max(len(texts[i]) for i in mine)),
            )
            for i, values in zip(mine, batch_log_p, strict=True):
                log_p[i] = values
        return log_p

    @torch.inference_mode()
    def _read(self, prefix: tuple[int, ...]) -> KeysAndValues:
        """Returns what the layers keep of a prefix; those used last are not read again."""
        if prefix not in self._prefixes:
            self._prefixes[prefix] = read_prefix(self._base, prefix, self._device)
        self._prefixes.move_to_end(prefix)
        while len(self._prefixes) > 1 and sum(map(len, self._prefixes)) > KEPT_TOKENS:
            self._prefixes.popitem(last=False)
        return self._prefixes[prefix]

    @functools.cached_property
    def _reads_after_prefix(self) -> bool:
        if has_windows(self._config):
            return False  # a few tokens would not show them
        return reads_after_prefix(self._body, self._base, self._few, self._dtype)

    @functools.cached_property
    def _reads_trees(self) -> bool:
        return reads_trees(self._body, self._few, self._config, self._dtype)

    def _some_ids(self, model: Any) -> torch.Tensor:
        """Returns BOS and the first tokens of the vocabulary, without padding: (1, 16) at most.

        XLM hides as many tokens at the end as there are padding ones anywhere."""
        pad = getattr(model.config.get_text_config(), "pad_token_id", None)
        few = [id for id in range(min(16, self.vocabulary_size)) if id != pad]
        few = [self._tokens.bos_id, *few[:15]][: self._tokens.limit]
        return torch.tensor([few], device=self._device)


def body_and_head(model: Any, ids: torch.Tensor) -> tuple[Body, Head, bool]:
    """Returns the model as two steps, ids -> states, and states -> logits of a part of the
    vocabulary.

    Some models do more to logits than their output layer does (Gemma caps, Cohere scales
    them). Where the two steps do not give what the whole model gives, the first is the whole
    model and the second takes the part; the third thing returned says whether that is so.

    Args:
        ids: (1, tokens) to try it on.
    """
    layer = model.get_output_embeddings()

    def whole(ids: torch.Tensor, **how: Any) -> torch.Tensor:
        logits: torch.Tensor = model(input_ids=ids, use_cache=False, **how).logits
        return logits

    def part(logits: torch.Tensor, columns: slice) -> torch.Tensor:
        return logits[..., columns].clone()  # a head's logits are its caller's to change

    def body(ids: torch.Tensor, **how: Any) -> torch.Tensor:
        states: torch.Tensor = model.base_model(input_ids=ids, use_cache=False, **how)[0]
        return states

    def head(states: torch.Tensor, columns: slice) -> torch.Tensor:
        bias = None if layer.bias is None else layer.bias[columns]
        return torch.nn.functional.linear(states, layer.weight[columns], bias)

    if isinstance(layer, torch.nn.Linear) and model.base_model is not model:
        with torch.inference_mode():
            states = body(ids)
            fits = states.shape[-1] == layer.in_features
            if fits and torch.equal(head(states, slice(None)), whole(ids)):
                return body, head, False
    return whole, part, True


def check_causal(body: Body, ids: torch.Tensor, model: Any) -> None:
    """Checks that another last token leaves what the model makes of those before it as it was.

    A causal head says little: `transformers` puts one on BERT, XLM and XLNet, which attend to both
    sides unless their configuration makes them decoders, and then every token has seen itself.

    Args:
        body: ids -> states or logits, (1, tokens, d).
        ids: (1, tokens).

    Raises:
        ModelError: the model looks ahead.
    """
    other = ids.clone()
    other[0, -1] = ids[0, -2]
    with torch.inference_mode():
        before, after = (body(row)[0, :-1] for row in (ids, other))
    change = (before.float() - after.float()).norm(dim=-1) / before.float().norm(dim=-1)
    # in most models nothing changes at all; where tokens are grouped by experts, rounding does
    if (change > max(1e-4, 4 * torch.finfo(before.dtype).eps)).any():
        raise ModelError(
            f"{type(model).__name__} is not a causal language model: what stands before a token "
            "depends on the token, so its probabilities have seen the text; use a model that "
            "reads from left to right, for example offline/smollm2"
        )


NATS = 0.5
"""BOS makes a text far worse if its tokens lose as many nats on average."""
_TEXT = "The house stood at the end of a long road. In winter nobody came there for weeks."


@functools.cache
def _warned(label: str) -> None:
    """Says once that a model writes and scores worse with BOS."""
    logging.getLogger(__name__).warning(
        "note: model '%s' finds a plain text far less likely with BOS before it than without, and "
        "its tokenizer puts none there; bos=auto does what its tokenizer does",
        label,
    )


def warn_of_bos(model: Any, tokens: CausalTokens, label: str) -> None:
    """Warns, once a process, of a model that reads BOS as no text of its training began.

    Nothing is computed where the tokenizer puts BOS by itself, or nothing does.
    """
    if not tokens.reads_bos or tokens.puts_bos:
        return
    (text,) = tokens.ids([_TEXT])
    device = next(model.parameters()).device
    means = []
    with torch.inference_mode():
        for before in ([tokens.bos_id], []):
            ids = torch.tensor([[*before, *text]], device=device)
            log_p = model(input_ids=ids, use_cache=False).logits[0, :-1].float().log_softmax(-1)
            token_log_p = log_p.gather(1, ids[0, 1:, None])
            means.append(float(token_log_p[len(before) :].mean()))
    with_bos, without = means
    if with_bos < without - NATS:
        _warned(label)


def load_causal(name: str, loading: Loading, *, bos: Bos = "auto") -> TorchCausalModel:
    """Returns the causal language model of this name.

    Args:
        bos: whether BOS precedes every text.

    Raises:
        ModelError: the model does not exist, or is not a causal one.
    """
    resolved = resolve_causal(name, loading)
    model, tokenizer = load_pretrained(resolved, "causal", loading)
    bos = rule(resolved, bos)
    causal = TorchCausalModel(model, tokenizer, batch_tokens=loading.batch_tokens, bos=bos)
    if not resolved.has_embedded_lm:
        warn_of_bos(model, causal.tokens, resolved.label)
    return causal
