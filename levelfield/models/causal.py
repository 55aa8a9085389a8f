"""P(text) from causal language models, whatever computes: what to score, and what is cut.

How a text begins is the rule of `causal_tokens`: the first token is scored given BOS, or not at all
without BOS. No end token is scored.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats, Ints
from levelfield.models.causal_tokens import CausalTokens, Tokenised
from levelfield.models.contracts import CausalLikelihood, Frame, WordLikelihoods
from levelfield.models.tokens import RecentResults, buckets, unique


class Branch(NamedTuple):
    """A sequence of a tree, from the root to a leaf.

    Attributes:
        ids: (tokens,) the root's first.
        after: (scored tokens,) the place that each comes after.
        scored: (scored tokens,) the tokens whose log-probability is wanted.
        which: (scored tokens,) of the tree's they are.
    """

    ids: Ints
    after: Ints
    scored: Ints
    which: Codes


class TokenTree:
    """Everything that one pass of a causal model scores of a text, as a tree of tokens.

    A node is a token after those on its way from the root, so sequences that begin alike share
    nodes. A parent comes before its children.

    Attributes:
        ids: (nodes,) the tokens; the first is the root.
        parents: (nodes,) the node before each; the root's is itself.
        depths: (nodes,) tokens on the way from the root.
        after: (scored tokens,) the node that each scored token comes after.
        scored: (scored tokens,) the tokens whose log-probability is wanted.
        text: how many nodes after the root are the tokens of a whole text; 0 where none is known.
    """

    def __init__(self, root: int) -> None:
        self.text = 0
        self.ids = [root]
        self.parents = [0]
        self.depths = [0]
        self.after: list[int] = []
        self.scored: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def walk(self, node: int, ids: Sequence[int]) -> list[int]:
        """Returns the path of these tokens from the node `node`, which comes first.

        Nodes that are missing are added.
        """
        path = [node]
        for id in ids:
            child = self._children.setdefault((path[-1], id), len(self))
            if child == len(self):
                self.ids.append(id)
                self.parents.append(path[-1])
                self.depths.append(self.depths[path[-1]] + 1)
            path.append(child)
        return path

    def score(self, node: int, ids: Sequence[int]) -> slice:
        """Returns which of the scored tokens these are, read after the node `node`.

        The last of them needs no node: nothing is read after it.
        """
        begin = len(self.scored)
        self.after += self.walk(node, ids[:-1])[: len(ids)]
        self.scored += ids
        return slice(begin, len(self.scored))

    def branches(self) -> list[Branch]:
        """Returns the tree as sequences from the root to a leaf; each scored token is of one of
        them."""
        leaves = sorted(set(range(len(self))) - set(self.parents[1:])) or [0]
        place_of: dict[int, tuple[int, int]] = {}
        paths = []
        for row, leaf in enumerate(leaves):
            path = [leaf]
            while path[-1]:
                path.append(self.parents[path[-1]])
            paths.append(path[::-1])
            for place, node in enumerate(paths[-1]):
                place_of.setdefault(node, (row, place))
        scored_places = [place_of[node] for node in self.after]
        rows, places = np.array(scored_places, np.int64).reshape(-1, 2).T
        branches = []
        for row, path in enumerate(paths):
            which = np.flatnonzero(rows == row)
            ids = np.array([self.ids[node] for node in path])
            branches.append(
                Branch(ids, places[which], np.array(self.scored, np.int64)[which], which)
            )
        return branches

    def sight(self) -> Bools:
        """Returns which nodes each node attends to, itself and those on its way: (nodes, nodes)."""
        sight = np.eye(len(self), dtype=np.bool_)
        for node in range(1, len(self)):
            sight[node] |= sight[self.parents[node]]
        return sight


class BatchedCausalModel(abc.ABC):
    """Base of causal models that score batches of ids.

    Equal texts are scored once and texts of like length together.

    Args:
        batch_tokens: the most tokens in a batch, padding included.

    Attributes:
        vocabulary_size: how many tokens the model gives probabilities to.
        limit: how many tokens the model takes.
        end_id: the id of the end-of-text token; None if there is none.
    """

    def __init__(self, tokens: CausalTokens, *, batch_tokens: int) -> None:
        self._tokens = tokens
        self.vocabulary_size, self.limit = tokens.vocabulary_size, tokens.limit
        self.end_id = tokens.end_id
        self._batch_tokens = batch_tokens
        self._unscored = tokens.unscored
        self._recent: RecentResults[str, CausalLikelihood] = RecentResults()

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns vocabulary ids of whole texts, without special tokens."""
        return self._tokens.ids(texts)

    def log_likelihood(self, texts: Sequence[str]) -> list[CausalLikelihood]:
        """Returns log P(token | BOS, tokens before it), for each token of each text; without BOS
        the first token is not scored.

        A text longer than the model takes is cut: only its beginning is scored.
        """
        distinct, place = unique(texts)
        new = [text for text in distinct if text not in self._recent]
        likelihoods = {text: self._recent[text] for text in distinct if text in self._recent}
        for text, tokenised, log_p in self._scored(new):
            likelihoods[text] = self._remember(text, tokenised, log_p)
        return [likelihoods[distinct[i]] for i in place]

    def words_after(
        self, texts: Sequence[str], frames_per_text: Sequence[Sequence[Frame]]
    ) -> list[WordLikelihoods]:
        """Returns log P(word | BOS, text, between), for each word of each frame of each text.

        A text and all its frames are one tree of tokens, whose root is the first token that is
        read. Where a model reads trees, each of its tokens is computed once; others read its paths.
        Words of one token are read where their frame ends.
        """
        frames: dict[str, dict[Frame, None]] = {}
        for text, text_frames in zip(texts, frames_per_text, strict=True):
            frames.setdefault(text, {}).update(dict.fromkeys(text_frames))
        pieces, _ = unique(
            piece
            for distinct in frames.values()
            for frame in distinct
            for piece in (frame.between, *frame.words)
        )
        ids = dict(zip(pieces, self._tokens.ids(pieces), strict=True))
        new = {text for text in frames if text not in self._recent}
        tokenised = self._tokens.fit(list(frames))
        trees, places, whose = [], [], []
        for (text, distinct), text_tokens in zip(frames.items(), tokenised, strict=True):
            shares_root = self._tokens.reads_bos or len(text_tokens.ids)
            for together in [list(distinct)] if shares_root else [[frame] for frame in distinct]:
                frame = together[0] if together else Frame("", ())
                tree = TokenTree(self._before_gap(frame, text_tokens, ids)[0])
                if text in new:
                    tree.score(0, text_tokens.ids[self._unscored :].tolist())
                places.append({f: self._put(f, tree, text_tokens, ids) for f in together})
                tree.text = self._text_tokens_of(tree, text_tokens)
                trees.append(tree)
                whose.append((text, text_tokens))
        results: dict[tuple[str, Frame], tuple[list[Floats], bool]] = {}
        for (text, text_tokens), words_of, log_p in zip(
            whose, places, self._tree_log_p(trees), strict=True
        ):
            if text in new and text not in self._recent:
                scored = max(0, len(text_tokens.ids) - self._unscored)
                self._remember(text, text_tokens, log_p[:scored].copy())
            for frame, (words, cut) in words_of.items():
                results[text, frame] = [log_p[word] for word in words], cut
        return [
            WordLikelihoods(
                [results[text, frame][0] for frame in text_frames],
                [results[text, frame][1] for frame in text_frames],
            )
            for text, text_frames in zip(texts, frames_per_text, strict=True)
        ]

    def _text_tokens_of(self, tree: TokenTree, tokenised: Tokenised) -> int:
        """Returns how many nodes after the root are the whole text, of which a mean of states may
        be kept; 0 if it is cut, or its first token is the root."""
        ids = tokenised.ids.tolist()
        is_whole = self._tokens.reads_bos and not tokenised.cut
        return len(ids) if is_whole and tree.ids[1 : 1 + len(ids)] == ids else 0

    def log_likelihood_after(
        self, prefixes: Sequence[str], texts: Sequence[str]
    ) -> list[list[CausalLikelihood]]:
        """Returns log P(token | BOS, prefix, tokens before it), for each prefix and each text after
        it.

        A model may keep what it makes of a prefix, so that it reads it once for many texts.
        """
        ids = dict(zip(prefixes, self._tokens.ids(prefixes), strict=True))
        distinct, place = unique(texts)
        tokenised = self._tokens.fit(distinct)
        half = self.limit // 2
        likelihoods: dict[str, list[CausalLikelihood]] = {}
        for prefix in ids:
            if not (kept := _end(ids[prefix], half)) and self._unscored:
                likelihoods[prefix] = self.log_likelihood(distinct)
                continue
            room = self.limit - len(kept)
            parts = [
                Tokenised(
                    text.ids[:room],
                    text.ends[:room],
                    text.cut or len(text.ids) > room or len(ids[prefix]) > half,
                )
                for text in tokenised
            ]
            log_p = self._log_p_after(self._tokens.begun(kept), [part.ids for part in parts])
            likelihoods[prefix] = [
                CausalLikelihood(part.ids, part.ends, values, part.cut)
                for part, values in zip(parts, log_p, strict=True)
            ]
        return [[likelihoods[prefix][i] for i in place] for prefix in prefixes]

    def token_id(self, token: str) -> int | None:
        """Returns the id of a token as the vocabulary spells it; None if it is unknown."""
        return self._tokens.single(token)

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns where in a text each of its tokens ends, in characters, as far as the model reads
        it."""
        return [text_tokens.ends.tolist() for text_tokens in self._tokens.fit(texts)]

    def log_p_after(
        self, prompts: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """Returns log P(target token | prompt, target tokens before it): (tokens,) for each target.

        Prompts are ids and read as they are, nothing is put before them; they are not empty.
        """
        log_p: list[Floats] = [np.empty(0)] * len(targets)
        nonempty = [i for i, target in enumerate(targets) if target]
        rows = [
            (
                np.array([*prompts[i], *targets[i][:-1]], np.int64),
                np.arange(len(prompts[i]) - 1, len(prompts[i]) + len(targets[i]) - 1),
                np.array(targets[i], np.int64),
            )
            for i in nonempty
        ]
        for i, values in zip(nonempty, self._rows_log_p(rows), strict=True):
            log_p[i] = values
        return log_p

    @abc.abstractmethod
    def unigram_bos(self) -> Floats:
        """Returns log p(t | BOS) of every token: (vocabulary,)."""

    @abc.abstractmethod
    def _log_p_at(
        self, inputs: Sequence[Ints], places: Sequence[Ints], tokens: Sequence[Ints]
    ) -> list[Floats]:
        """Returns the log-probabilities of one batch's tokens, each after a place in the inputs.

        Args:
            inputs: (tokens,) of each row, read as they are.
            places: (scored tokens,) of each row, the places in `inputs`.
            tokens: (scored tokens,) of each row.
        """

    def _remember(self, text: str, tokenised: Tokenised, log_p: Floats) -> CausalLikelihood:
        """Keeps a result."""
        log_p.flags.writeable = False  # callers share the array
        ids, ends = (part[self._unscored :] for part in tokenised[:2])
        first = tokenised.ends[: self._unscored].max(initial=self._unscored)
        likelihood = CausalLikelihood(ids, ends, log_p, tokenised.cut, int(first))
        self._recent.keep(text, likelihood, 1 + len(likelihood.ids))
        return likelihood

    def _scored(self, texts: Sequence[str]) -> Iterator[tuple[str, Tokenised, Floats]]:
        tokenised = self._tokens.fit(texts)
        scored = [text_tokens.ids[self._unscored :] for text_tokens in tokenised]
        rows = [
            (np.array(self._tokens.begun(text_tokens.ids[:-1].tolist())), np.arange(len(ids)), ids)
            for text_tokens, ids in zip(tokenised, scored, strict=True)
            if ids.size
        ]
        log_p = iter(self._rows_log_p(rows))
        for text, text_tokens, ids in zip(texts, tokenised, scored, strict=True):
            yield text, text_tokens, next(log_p) if ids.size else np.empty(0)

    def _rows_log_p(self, rows: Sequence[tuple[Ints, Ints, Ints]]) -> list[Floats]:
        """Returns the log-probabilities of the tokens of each row, in batches of like length.

        Args:
            rows: the inputs, places and tokens of each, as `_log_p_at` has them.
        """
        log_p: list[Floats] = [np.empty(0)] * len(rows)
        for bucket in buckets([len(ids) for ids, *_ in rows], self._batch_tokens):
            batch = [rows[i] for i in bucket]
            batch_log_p = self._log_p_at(*zip(*batch, strict=True))
            for i, values in zip(bucket, batch_log_p, strict=True):
                log_p[i] = values
        return log_p

    def _log_p_after(self, prefix: Sequence[int], texts: Sequence[Ints]) -> list[Floats]:
        """Returns the log-probabilities of the tokens of each text, read after a prefix.

        Args:
            prefix: read as it is; not empty.
            texts: (tokens,) of each.
        """
        return self.log_p_after([prefix] * len(texts), [ids.tolist() for ids in texts])

    def _tree_log_p(self, trees: Sequence[TokenTree]) -> list[Floats]:
        """Returns the log-probabilities of the scored tokens of each tree, path by path."""
        log_p = [np.empty(len(tree.scored)) for tree in trees]
        branches = [
            (tree_log_p, branch)
            for tree, tree_log_p in zip(trees, log_p, strict=True)
            if tree.scored
            for branch in tree.branches()
        ]
        branch_log_p = self._rows_log_p([branch[:3] for _, branch in branches])
        for (tree_log_p, branch), values in zip(branches, branch_log_p, strict=True):
            tree_log_p[branch.which] = values
        return log_p

    def _put(
        self, frame: Frame, tree: TokenTree, text: Tokenised, ids: Mapping[str, list[int]]
    ) -> tuple[list[slice], bool]:
        """Puts a frame on the tree of its text: which of the tree's scored tokens each word is, and
        whether something is cut."""
        half, room = self.limit // 2, self._room(frame, ids)
        between, words = ids[frame.between], [ids[word] for word in frame.words]
        end = tree.walk(0, self._before_gap(frame, text, ids)[1:])[-1]  # the root is the first
        longest = max(map(len, words), default=0)
        cut = text.cut or len(text.ids) > room or len(between) > half or longest > half
        return [tree.score(end, word[:half]) for word in words], cut

    def _before_gap(self, frame: Frame, text: Tokenised, ids: Mapping[str, list[int]]) -> list[int]:
        """Returns what is read before the words of a frame."""
        kept = _end(ids.get(frame.between, ()), self.limit // 2)
        return self._tokens.begun([*text.ids[: self._room(frame, ids)].tolist(), *kept])

    def _room(self, frame: Frame, ids: Mapping[str, list[int]]) -> int:
        """Returns how many tokens of its text fit before a frame."""
        longest = max((len(ids[word]) for word in frame.words), default=0)
        between = len(ids.get(frame.between, ()))
        return (
            self.limit + self._unscored - sum(min(n, self.limit // 2) for n in (between, longest))
        )


def _end(ids: Sequence[int], most: int) -> Sequence[int]:
    """Returns the last `most` ids, or all if there are fewer."""
    return ids[max(0, len(ids) - most) :]


def has_windows(config: Any) -> bool:
    """Returns whether a layer attends to the last tokens only, by the names that configurations
    have."""
    layers = getattr(config, "layer_types", None)
    if layers is not None:
        return any(layer != "full_attention" for layer in layers)
    names = ("sliding_window", "window_size", "attention_chunk_size")
    return any(getattr(config, name, None) for name in names)
