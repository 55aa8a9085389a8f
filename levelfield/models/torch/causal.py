"""P(text) from causal language models: every token given what stands before it.

The first token of a text is scored given BOS (see `causal_tokens`); no end token is scored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Floats, Ints
from levelfield.core.errors import ModelError
from levelfield.models.batching import buckets, unique
from levelfield.models.contracts import CausalLikelihood, Frame, WordLikelihoods
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve_causal
from levelfield.models.torch.causal_tokens import CausalTokens, Tokenised
from levelfield.models.torch.loading import load_pretrained, placement
from levelfield.models.torch.softmax import Block, Head, token_log_p
from levelfield.models.torch.token_tree import Branch, TokenTree, attention, reads_trees

Body = Callable[..., torch.Tensor]
"""Ids (rows, tokens) -> states (rows, tokens, d); more by name, as `attention` has it."""

RECENT_TOKENS = 2**22
"""So many tokens' results are kept, so that metrics of the same samples share one pass, also where
one metric goes through all of a study's cell before the next: at 24 bytes a token, 100 MB."""

SHARED_TOKENS = 512
"""So many tokens a tree of texts behind one prefix has at most, unless one text has more: enough to
share the prefix among several, few enough for attention across texts to cost little."""

WHOLE_LOGITS = 2**28
"""So many logits a batch may have where they are all taken at once: 1 GiB in float32."""


WHOLE_SIGHT = 2**28
"""So many pairs of tokens the attention mask of a batch of trees may have: 1 GiB in float32."""


class TorchCausalModel:
    """Causal checkpoints in PyTorch: GPT-2, BLOOM, Llama and their like.

    Equal texts are scored once and texts of like length together. The softmax over the vocabulary
    is taken at positions of real tokens only, block by block, in float32 or better.
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_tokens: int | None = None) -> None:
        model.eval()
        self._tokens = CausalTokens(tokenizer, model.config)
        self._device = next(model.parameters()).device
        on_cpu = self._device.type == "cpu"
        self._batch_tokens = batch_tokens or (2048 if on_cpu else 65536)
        self._block = Block.on(self._device)
        self._few = self._some_ids(model)
        self._body, self._head, is_whole = body_and_head(model, self._few)
        if is_whole:
            most = max(1, WHOLE_LOGITS // self.vocabulary_size)
            self._batch_tokens = min(self._batch_tokens, most)
        self._dtype = next(model.parameters()).dtype
        self._config = model.config.get_text_config()
        check_causal(self._body, self._few, model)
        self._recent: dict[str, CausalLikelihood] = {}
        self._recent_tokens = 0

    @property
    def vocabulary_size(self) -> int:
        return self._tokens.vocabulary_size

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Vocabulary ids of whole texts, without special tokens."""
        return self._tokens.ids(texts)

    def log_likelihood(self, texts: Sequence[str]) -> list[CausalLikelihood]:
        """log P(token | BOS, tokens before it), for each token of each text.

        Of a text longer than the model takes the beginning is scored, and it counts as cut.
        """
        distinct, place = unique(texts)
        new = [text for text in distinct if text not in self._recent]
        found = {text: self._recent[text] for text in distinct if text in self._recent}
        for text, tokenised, log_p in self._scored(new):
            found[text] = self._remember(text, tokenised, log_p)
        return [found[distinct[at]] for at in place]

    def words_after(
        self, texts: Sequence[str], frames_per_text: Sequence[Sequence[Frame]]
    ) -> list[WordLikelihoods]:
        """log P(word | BOS, text, between), for each word of each frame of each text.

        A text and all its frames are one tree of tokens, so each of its tokens is computed once,
        and words of one token are read where their frame ends. Where the model can't read trees,
        it reads their paths.
        """
        frames: dict[str, dict[Frame, None]] = {}
        for text, of_text in zip(texts, frames_per_text, strict=True):
            frames.setdefault(text, {}).update(dict.fromkeys(of_text))
        pieces, _ = unique(
            piece
            for distinct in frames.values()
            for frame in distinct
            for piece in (frame.between, *frame.words)
        )
        ids = dict(zip(pieces, self._tokens.ids(pieces), strict=True))
        new = {text for text in frames if text not in self._recent}
        tokenised = self._tokens.fit(list(frames))
        trees, places = [], []
        for (text, distinct), one in zip(frames.items(), tokenised, strict=True):
            tree = TokenTree(self._tokens.bos_id)
            if text in new:
                tree.score(0, one.ids.tolist())
            places.append({frame: self._put(frame, tree, one, ids) for frame in distinct})
            trees.append(tree)
        found: dict[tuple[str, Frame], tuple[list[Floats], bool]] = {}
        for text, one, words_of, log_p in zip(
            frames, tokenised, places, self._tree_log_p(trees), strict=True
        ):
            if text in new:
                self._remember(text, one, log_p[: len(one.ids)].copy())
            for frame, (words, cut) in words_of.items():
                found[text, frame] = [log_p[word] for word in words], cut
        return [
            WordLikelihoods(
                [found[text, frame][0] for frame in of_text],
                [found[text, frame][1] for frame in of_text],
            )
            for text, of_text in zip(texts, frames_per_text, strict=True)
        ]

    def log_likelihood_after(
        self, prefixes: Sequence[str], texts: Sequence[str]
    ) -> list[list[CausalLikelihood]]:
        """log P(token | BOS, prefix, tokens before it), for each prefix and each text after it.

        A prefix and several texts behind it are one tree of tokens, so its tokens are computed once
        for all of them, and so are those that texts begin with alike.
        """
        ids = dict(zip(prefixes, self._tokens.ids(prefixes), strict=True))
        tokenised = dict(zip(texts, self._tokens.fit(texts), strict=True))
        half, most = self.limit // 2, min(self.limit, SHARED_TOKENS)
        trees: list[TokenTree] = []
        scored: dict[tuple[str, str], tuple[int, slice, Tokenised]] = {}
        for prefix in ids:
            kept = _end(ids[prefix], half)
            room, tree = self.limit - len(kept), None
            for text, one in tokenised.items():
                if tree is None or len(tree) + len(one.ids) > most:
                    trees.append(tree := TokenTree(self._tokens.bos_id))
                end = tree.walk(0, kept)[-1]
                which = tree.score(end, one.ids[:room].tolist())
                cut = one.cut or len(one.ids) > room or len(ids[prefix]) > half
                read = Tokenised(one.ids[:room], one.ends[:room], cut)
                scored[prefix, text] = len(trees) - 1, which, read
        log_p = self._tree_log_p(trees)
        found = {
            pair: CausalLikelihood(one.ids, one.ends, log_p[tree_at][which], one.cut)
            for pair, (tree_at, which, one) in scored.items()
        }
        return [[found[prefix, text] for text in texts] for prefix in prefixes]

    @property
    def limit(self) -> int:
        """How many tokens the model takes."""
        return self._tokens.limit

    @property
    def end_id(self) -> int | None:
        """The id of the end-of-text token."""
        return self._tokens.end_id

    def token_id(self, token: str) -> int | None:
        """The id of a token that is written as it stands in the vocabulary; None if none is."""
        return self._tokens.single(token)

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Where in a text each of its tokens ends, in characters, as far as the model reads it."""
        return [one.ends.tolist() for one in self._tokens.fit(texts)]

    def log_p_after(
        self, prompts: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """log P(target token | prompt, target tokens before it): (tokens,) for each target.

        Prompts are ids and read as they are, nothing is put before them; they are not empty.
        """
        log_p: list[Floats] = [np.empty(0)] * len(targets)
        some = np.array([i for i, target in enumerate(targets) if target], np.intp)
        whole = [[*prompts[i], *targets[i]] for i in some.tolist()]
        with torch.inference_mode():
            for bucket in buckets([len(ids) - 1 for ids in whole], self._batch_tokens):
                rows = some[bucket].tolist()
                ids = [np.array(whole[at], np.int64) for at in bucket.tolist()]
                given = [one[:-1] for one in ids]
                begins = [len(prompts[i]) - 1 for i in rows]
                at = [np.arange(b, len(one)) for b, one in zip(begins, given, strict=True)]
                tokens = [one[b + 1 :] for b, one in zip(begins, ids, strict=True)]
                found = self._log_p_at(given, at, tokens)
                for i, values in zip(rows, found, strict=True):
                    log_p[i] = values
        return log_p

    @functools.cached_property
    def _unigram_bos(self) -> Floats:
        with torch.inference_mode():
            bos = torch.tensor([[self._tokens.bos_id]], device=self._device)
            logits = self._head(self._body(bos)[0, 0], slice(None)).float()
            log_p: Floats = logits.log_softmax(-1).double().cpu().numpy()
        return log_p

    def unigram_bos(self) -> Floats:
        """log p(t | BOS) of every token: (vocabulary,), from one forward of BOS, done once."""
        return self._unigram_bos

    def _remember(self, text: str, tokenised: Tokenised, log_p: Floats) -> CausalLikelihood:
        """Keeps a result, and forgets the oldest once too many tokens are held."""
        log_p.flags.writeable = False  # others will be given the same array
        likelihood = CausalLikelihood(tokenised.ids, tokenised.ends, log_p, tokenised.cut)
        self._recent[text] = likelihood
        self._recent_tokens += 1 + len(likelihood.ids)
        while self._recent_tokens > RECENT_TOKENS:
            oldest = self._recent.pop(next(iter(self._recent)))
            self._recent_tokens -= 1 + len(oldest.ids)
        return likelihood

    def _scored(self, texts: Sequence[str]) -> list[tuple[str, Tokenised, Floats]]:
        tokenised = self._tokens.fit(texts)
        log_p: list[Floats] = [np.empty(0)] * len(texts)
        readable = np.array([i for i, one in enumerate(tokenised) if one.ids.size], np.intp)
        lengths = [len(tokenised[i].ids) for i in readable]
        with torch.inference_mode():
            for bucket in buckets(lengths, self._batch_tokens):
                rows = readable[bucket].tolist()
                of_rows = self._log_p([tokenised[i].ids for i in rows])
                for i, values in zip(rows, of_rows, strict=True):
                    log_p[i] = values
        return list(zip(texts, tokenised, log_p, strict=True))

    def _log_p(self, ids: Sequence[Ints]) -> list[Floats]:
        """Log-probabilities of the tokens of one batch of texts, after BOS."""
        given = [np.concatenate([[self._tokens.bos_id], one[:-1]]) for one in ids]
        return self._log_p_at(given, [np.arange(len(one)) for one in ids], ids)

    def _log_p_at(
        self, given: Sequence[Ints], at: Sequence[Ints], tokens: Sequence[Ints], **how: torch.Tensor
    ) -> list[Floats]:
        """Of one batch, the log-probabilities of tokens, each after what is given at a place.

        Rows are padded on the right, so no scored position ever attends to padding: the model
        needs neither a mask beside the causal one nor positions other than its own.
        """
        longest = max(map(len, given))
        padded = np.full((len(given), longest), self._tokens.bos_id, np.int64)
        for row, one in zip(padded, given, strict=True):
            row[: len(one)] = one
        of_rows = [row * longest + one for row, one in enumerate(at)]
        places, which = np.unique(np.concatenate(of_rows), return_inverse=True)
        states = self._body(torch.from_numpy(padded).to(self._device), **how).flatten(0, 1)
        log_p = token_log_p(
            self._head,
            states[torch.from_numpy(places).to(self._device)],
            torch.from_numpy(which).to(self._device),
            torch.from_numpy(np.concatenate(tokens)).to(self._device),
            vocabulary=self.vocabulary_size,
            block=self._block,
        )
        return np.split(log_p.cpu().numpy(), np.cumsum([len(one) for one in at])[:-1])

    def _tree_log_p(self, trees: Sequence[TokenTree]) -> list[Floats]:
        """The log-probabilities of the scored tokens of each tree."""
        log_p = [np.empty(len(tree.scored)) for tree in trees]
        branches: list[Branch] = []
        tree_of: list[int] = []
        whole: list[int] = []
        for i, tree in enumerate(trees):
            if tree.scored and len(tree) <= self.limit and self._reads_trees:
                whole.append(i)
            elif tree.scored:
                branches += tree.branches()
                tree_of += [i] * (len(branches) - len(tree_of))
        longest = max((len(trees[i]) for i in whole), default=1)
        budget = min(self._batch_tokens, max(1, WHOLE_SIGHT // longest))
        with torch.inference_mode():
            for bucket in buckets([len(trees[i]) for i in whole], budget):
                mine = [trees[whole[at]] for at in bucket]
                of_mine = self._log_p_at(
                    [np.array(tree.ids) for tree in mine],
                    [np.array(tree.after) for tree in mine],
                    [np.array(tree.scored) for tree in mine],
                    **attention(mine, self._device, self._dtype),
                )
                for at, values in zip(bucket, of_mine, strict=True):
                    log_p[whole[at]] = values
            for bucket in buckets([len(branch.ids) for branch in branches], self._batch_tokens):
                batch = [branches[at] for at in bucket]
                of_batch = self._log_p_at(*zip(*(branch[:3] for branch in batch), strict=True))
                for at, branch, values in zip(bucket, batch, of_batch, strict=True):
                    log_p[tree_of[at]][branch.which] = values
        return log_p

    def _put(
        self, frame: Frame, tree: TokenTree, text: Tokenised, ids: Mapping[str, list[int]]
    ) -> tuple[list[slice], bool]:
        """Puts a frame on the tree of its text: which of the tree's scored tokens each word is, and
        whether something is cut."""
        half = self.limit // 2
        between, words = ids[frame.between], [ids[word] for word in frame.words]
        longest = max(map(len, words), default=0)
        kept = _end(between, half)
        room = self.limit - len(kept) - min(longest, half)
        end = tree.walk(0, [*text.ids[:room].tolist(), *kept])[-1]
        cut = text.cut or len(text.ids) > room or len(between) > half or longest > half
        return [tree.score(end, word[:half]) for word in words], cut

    @functools.cached_property
    def _reads_trees(self) -> bool:
        return reads_trees(self._body, self._few, self._config, self._dtype)

    def _some_ids(self, model: Any) -> torch.Tensor:
        """BOS and the first tokens of the vocabulary: (1, 16) at most. Padding is not among them:
        XLM hides as many tokens at the end as there are padding ones anywhere."""
        pad = getattr(model.config.get_text_config(), "pad_token_id", None)
        few = [id for id in range(min(16, self.vocabulary_size)) if id != pad]
        few = [self._tokens.bos_id, *few[:15]][: self._tokens.limit]
        return torch.tensor([few], device=self._device)


def body_and_head(model: Any, ids: torch.Tensor) -> tuple[Body, Head, bool]:
    """The model as two steps, ids -> states, and states -> logits of a part of the vocabulary.

    Some models do more to logits than their output layer does (Gemma caps, Cohere scales
    them). Where the two steps do not give what the whole model gives, the first is the whole
    model and the second takes the part; the third thing returned says whether that is so.

    Args:
        ids: (1, tokens) to try it on.
    """
    layer = model.get_output_embeddings()

    def whole(ids: torch.Tensor, **how: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(input_ids=ids, use_cache=False, **how).logits
        return logits

    def part(logits: torch.Tensor, of: slice) -> torch.Tensor:
        return logits[..., of].clone()  # a head's logits are its caller's to change

    def body(ids: torch.Tensor, **how: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = model.base_model(input_ids=ids, use_cache=False, **how)[0]
        return states

    def head(states: torch.Tensor, of: slice) -> torch.Tensor:
        bias = None if layer.bias is None else layer.bias[of]
        return torch.nn.functional.linear(states, layer.weight[of], bias)

    if isinstance(layer, torch.nn.Linear) and model.base_model is not model:
        with torch.inference_mode():
            states = body(ids)
            fits = states.shape[-1] == layer.in_features
            if fits and torch.equal(head(states, slice(None)), whole(ids)):
                return body, head, False
    return whole, part, True


def _end(ids: Sequence[int], most: int) -> Sequence[int]:
    """The last of these, at most so many."""
    return ids[max(0, len(ids) - most) :]


def check_causal(body: Body, ids: torch.Tensor, model: Any) -> None:
    """Nothing, if another last token leaves what the model makes of those before it as it was.

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
        before, after = (body(one)[0, :-1] for one in (ids, other))
    change = (before.float() - after.float()).norm(dim=-1) / before.float().norm(dim=-1)
    # in most models nothing changes at all; where tokens are grouped by experts, rounding does
    if (change > max(1e-4, 4 * torch.finfo(before.dtype).eps)).any():
        raise ModelError(
            f"{type(model).__name__} is no causal language model: what stands before a token "
            "depends on the token, so its probabilities have seen the text; take a model that "
            "reads from left to right, for example offline/smollm2"
        )


def load_causal(name: str, loading: Loading) -> TorchCausalModel:
    """The causal language model of this name.

    Raises:
        ModelError: there is no such model, or it is not a causal one.
    """
    model, tokenizer = load_pretrained(resolve_causal(name, loading), "causal", *placement(loading))
    return TorchCausalModel(model, tokenizer, batch_tokens=loading.batch_tokens)
