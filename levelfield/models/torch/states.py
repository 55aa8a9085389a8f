"""What an encoder makes of each token of a text, after any of its layers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Bools, Singles
from levelfield.core.errors import ModelError, UserError
from levelfield.models.contracts import TextStates
from levelfield.models.infilling import WITHOUT_LIMIT
from levelfield.models.loading import Loading
from levelfield.models.resolve import Resolved, resolve
from levelfield.models.tokens import batches, unique
from levelfield.models.torch.loading import (
    ForwardPass,
    load_body,
    places,
)

KEPT_BYTES = 1 << 28
"""States of the texts seen last are kept up to this size: sources and references come again with
every system, and a text is compared with both."""


def load_states(name: str, loading: Loading, *, layer: int) -> TorchTokenEncoder:
    """Returns the states of this model after a layer.

    Raises:
        ModelError: the model does not exist, or has no encoder.
        UserError: the model lacks the layer.
    """
    return TorchTokenEncoder(resolve(name, loading), layer, loading)


class TorchTokenEncoder(ForwardPass):
    """Token states after one layer of an encoder; the layers above it are not run.

    Layer 0 is the embeddings that the first layer reads. Of an encoder-decoder it is the encoder
    that counts, of a classifier what is below its head. A norm that follows the last layer follows
    the chosen one. Texts are stripped first; of one that is too long the beginning is read. Byte-
    level tokenizers of the GPT-2 and RoBERTa family see a blank in front of the first word, so that
    it has the token that it has anywhere else.
    """

    def __init__(self, resolved: Resolved, layer: int, loading: Loading) -> None:
        from transformers import GPT2Tokenizer, RobertaTokenizer

        model, tokenizer = load_body(resolved, loading)
        keep_layers(model, layer, resolved.name)
        limit, device = _limit(model, tokenizer), next(model.parameters()).device
        # beyond 2,048 tokens the activations leave a core's cache
        super().__init__(model, tokenizer, limit, device, loading.batch_tokens, on_cpu=2048)
        self._blank = " " if isinstance(tokenizer, (GPT2Tokenizer, RobertaTokenizer)) else ""
        self._weightless = {tokenizer.cls_token_id, tokenizer.sep_token_id} - {None}
        self._kept: OrderedDict[str, TextStates] = OrderedDict()
        self._kept_bytes = 0

    def ids(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Returns vocabulary ids of texts as the model reads them, special tokens included."""
        return [tuple(ids) for ids in self._ids(texts)[0]]

    def weightless(self, ids: Sequence[int]) -> Bools:
        """Returns which of these ids are the tokens that stand for a text as a whole and for its
        end ([CLS], [SEP]); a tokenizer may have neither."""
        return np.array([id in self._weightless for id in ids], np.bool_)

    def of(self, texts: Sequence[str]) -> list[TextStates]:
        """Returns the states of these texts; each different one goes through the model once."""
        distinct, place = unique(texts)
        results = {text: self._kept[text] for text in distinct if text in self._kept}
        new = [text for text in distinct if text not in results]
        ids, cut = self._ids(new)
        before, after = len(self._tokens.before), len(self._tokens.after)
        for rows, states in self._forward(ids):
            for row, text_states in zip(rows, states, strict=True):
                n = len(ids[row])
                special = np.ones(n, np.bool_)
                special[before : n - after] = False
                kept = text_states[:n].copy()  # else it would hold the whole batch in memory
                results[new[row]] = TextStates(tuple(ids[row]), kept, special, cut[row])
        self._keep(results)
        return [results[distinct[i]] for i in place]

    def input_vectors(self, words: Sequence[str]) -> list[Singles | None]:
        """Returns what the model reads for each word before any context: the mean of its tokens'
        input embeddings, (d,); None for a word that it has no tokens for."""
        table = self._model.get_input_embeddings().weight
        unknown = self._tokens.tokenizer.unk_token_id
        vectors: list[Singles | None] = []
        for ids in self._tokens.ids([self._blank + word for word in words]):
            if not ids or unknown in ids:
                vectors.append(None)
                continue
            rows = table[torch.tensor(ids, device=table.device)]
            vectors.append(rows.detach().float().mean(dim=0).cpu().numpy())
        return vectors

    def _ids(self, texts: Sequence[str]) -> tuple[list[list[int]], list[bool]]:
        return self._tokens.fit_texts([self._blank + text.strip() for text in texts], self._limit)

    def _forward(self, ids: Sequence[list[int]]) -> Any:
        """Yields for each batch the places of its texts, and their states: (texts, longest, d)."""
        for rows, batch in batches(ids, self._batch_tokens):
            with torch.inference_mode():
                states = self._model(**self._batch(batch)).last_hidden_state
                unit = torch.nn.functional.normalize(states.float(), dim=-1)
            yield rows, unit.cpu().numpy()

    def _keep(self, results: dict[str, TextStates]) -> None:
        """Remembers what was just used, and forgets what was used longest ago."""
        for text, states in results.items():
            if text not in self._kept:
                self._kept_bytes += states.states.nbytes
            self._kept[text] = states
            self._kept.move_to_end(text)
        while self._kept_bytes > KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.states.nbytes


def keep_layers(body: Any, layer: int, name: str) -> None:
    """Removes the layers above this one from an encoder.

    Raises:
        UserError: the model lacks the layer.
        ModelError: the layers of this architecture are unknown.
    """
    n = int(body.config.num_hidden_layers)
    if not 0 <= layer <= n:
        raise UserError(f"layer={layer}: model '{name}' has the layers 0 to {n}")
    if layer == n:
        return
    if body.config.model_type == "albert":  # the same weights n times over
        body.config.num_hidden_layers = layer
        return
    for path, module in body.named_modules():
        parent, _, last = path.rpartition(".")
        if isinstance(module, torch.nn.ModuleList) and last in _STACKS and len(module) == n:
            setattr(body.get_submodule(parent), last, module[:layer])
            return
    raise ModelError(f"model '{name}': only its last layer is available; leave out layer={layer}")


_STACKS = ("layer", "layers", "block")


def _limit(body: Any, tokenizer: Any) -> int:
    """Returns how many tokens an encoder takes, by its tokenizer and by its table of positions."""
    positions = getattr(body.config, "max_position_embeddings", None)
    limits = [tokenizer.model_max_length, *([positions] if positions and positions > 0 else [])]
    if (fitting := places(body)) is not None:
        limits.append(fitting)
    limit = min(int(limit) for limit in limits)
    return limit if limit < _NO_LIMIT else WITHOUT_LIMIT


_NO_LIMIT = 10**6
"""`transformers` writes no limit as a number beyond any text."""
