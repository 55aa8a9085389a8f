"""What metrics, judges and training require of a model: one contract per kind, and what crosses it.

Callers see strings and NumPy arrays only. Equal inputs go through a model once, and values depend
neither on their order nor on the size of a batch. Log-probabilities are natural logarithms, in
nats. A text that is longer than the model takes is cut, and the results say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from levelfield.core.arrays import Bools, Floats, Ints, Singles

# -- texts and what is said of them


class Gapped(NamedTuple):
    """A source: the text left and right of the gap. With `gap` False nothing marks the place."""

    left: str
    right: str
    gap: bool = True

    @property
    def without_gap(self) -> str:
        """Both sides put together: one blank where the gap stood between two, none at the ends."""
        left, right = self.left, self.right
        if right[:1].isspace() and (not left or left[-1].isspace()):
            right = right[1:]
        if not right and left[-1:].isspace():
            left = left[:-1]
        return left + right

    def near(self, characters: int) -> Gapped:
        """Returns the source without the text that is farther from the gap on either side."""
        if len(self.left) <= characters and len(self.right) <= characters:
            return self
        return self._replace(left=self.left[-characters:], right=self.right[:characters])


class Target(NamedTuple):
    """What should fill the gap.

    With `end` the end-of-sequence token is scored as well; with `begin` so are the tokens that the
    decoder is given before the target (BART: `<s>`).
    """

    text: str
    end: bool
    begin: bool = False


@dataclass(frozen=True)
class LogLikelihoods:
    """What a model says of targets.

    Attributes:
        log_p: for each source and each of its targets the log-probabilities of the target's
            tokens, float64 of shape (tokens,); empty for a target without tokens.
        source_cut: for each source, whether the model did not see all of it.
        target_cut: for each source and target, whether the target was too long to be scored whole.
    """

    log_p: list[list[Floats]]
    source_cut: list[bool]
    target_cut: list[list[bool]]


class CausalLikelihood(NamedTuple):
    """What a model says of one text.

    Attributes:
        ids: (tokens,) of the vocabulary, BOS not among them; empty for a text without tokens.
        ends: (tokens,) where in the text each token ends, in characters; empty where the tokenizer
            can't say.
        log_p: (tokens,) log P(token | what is read before it): BOS if it precedes texts, a prefix,
            the tokens of the text.
        cut: whether the text was longer than the model takes, so that its end was not scored; or
            the prefix, so that its beginning was not read.
        unscored: where in the text its first token ends, if that token is not scored, since
            nothing is read before it; it is not among `ids` then. 0 where all are scored.
    """

    ids: Ints
    ends: Ints
    log_p: Floats
    cut: bool
    unscored: int = 0


class Frame(NamedTuple):
    """What follows a text up to a gap, and the words that could fill the gap.

    A causal model reads the ids of the text, of `between` and of a word one after the other, and
    each of the three is tokenised alone. Where a vocabulary has words with the blank before them,
    the blank belongs to the word: `Frame(" It was", (" good", " bad"))`.

    Attributes:
        between: what separates the text from the gap; may be empty.
        words: candidates for the gap.
    """

    between: str
    words: tuple[str, ...]


class WordLikelihoods(NamedTuple):
    """What a model says of the words of a text's frames.

    Attributes:
        log_p: for each frame and each of its words (tokens,) log P(token | BOS, text, between,
            tokens of the word before it); empty for a word without tokens.
        cut: for each frame, whether the model did not see all of it or of its text.
    """

    log_p: list[list[Floats]]
    cut: list[bool]


class TextStates(NamedTuple):
    """A text as an encoder sees it.

    Attributes:
        ids: (tokens,) in the vocabulary, special tokens included.
        states: (tokens, d), each of unit length.
        special: (tokens,) which of them the tokenizer put around the text.
        cut: whether the model takes fewer tokens than the text has.
    """

    ids: tuple[int, ...]
    states: Singles
    special: Bools
    cut: bool

    @property
    def empty(self) -> bool:
        """Whether the model has no token for anything in the text."""
        return bool(self.special.all())


# -- models


class TokenReader(Protocol):
    """What reads texts as tokens.

    Attributes:
        vocabulary_size: how many tokens the model gives probabilities to.
    """

    def __hash__(self) -> int: ...
    @property
    def vocabulary_size(self) -> int: ...
    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns vocabulary ids of whole texts, without special tokens."""


class InfillingModel(TokenReader, Protocol):
    """P(target | source): fills gaps.

    Attributes:
        gap_token: marks a gap; a text that contains it can't be scored. Empty if there is none.
    """

    @property
    def gap_token(self) -> str: ...
    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns where in a text each of its tokens ends, in characters; of a text that is too
        long to be a target, its beginning's. Empty where the tokenizer can't say."""

    def log_likelihood(
        self, sources: Sequence[Gapped], targets_per_source: Sequence[Sequence[Target]]
    ) -> LogLikelihoods:
        """Returns log P(target token | source, target tokens before it), for each target of each
        source.

        Sources that are too long keep the gap and the text nearest to it, targets their beginning.
        """


class EncoderDecoderModel(InfillingModel, Protocol):
    """P(target | source) with sources that have no gap.

    Attributes:
        source_limit: how many tokens of a source the model takes, special ones around it not
            counted.
    """

    @property
    def source_limit(self) -> int: ...


class CausalVocabulary(Protocol):
    """The tokenizer of a causal model, which is there without the weights.

    Attributes:
        bos: the BOS token, or EOS where the tokenizer has none.
        begin: what precedes every text, as signatures name it: `bos`, or `no` for nothing.
        digest: names which token each id is.
        vocabulary_size: how many tokens the model gives probabilities to.
    """

    @property
    def bos(self) -> str: ...
    @property
    def begin(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def vocabulary_size(self) -> int: ...
    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns vocabulary ids of whole texts, without special tokens."""


class CausalModel(TokenReader, Protocol):
    """P(text), every token given those before it: BOS too, where it precedes texts."""

    def log_likelihood(self, texts: Sequence[str]) -> list[CausalLikelihood]:
        """Returns log P(token | BOS, tokens before it), for each token of each text; without BOS
        the first token is not scored.

        A text longer than the model takes is cut: only its beginning is scored.
        """

    def words_after(
        self, texts: Sequence[str], frames_per_text: Sequence[Sequence[Frame]]
    ) -> list[WordLikelihoods]:
        """Returns log P(word | BOS, text, between), for each word of each frame of each text.

        All frames of a text share one pass over it. The pass tells `log_likelihood` of the text as
        well, and the model remembers it for the next call.

        Long inputs are cut so that the value of a frame does not depend on the other frames: the
        end of `between` is read and the beginning of a word scored, each up to half of the model's
        limit, and the beginning of the text is read, as in `log_likelihood`, as far as `between`
        and the longest word of the frame leave room.
        """

    def log_likelihood_after(
        self, prefixes: Sequence[str], texts: Sequence[str]
    ) -> list[list[CausalLikelihood]]:
        """Returns log P(token | BOS, prefix, tokens before it), for each prefix and each text after
        it.

        Prefix and text are tokenised alone. Of a prefix longer than half of what the model takes
        the end is read, and of a text that does not fit after it the beginning is scored; either
        counts as cut.
        """

    def unigram_bos(self) -> Floats:
        """Returns log p(t | BOS) of every token: (vocabulary,)."""


class SentenceEncoder(TokenReader, Protocol):
    """Embeddings of whole texts."""

    def sentences(self, texts: Sequence[str | Gapped]) -> tuple[Singles, list[bool]]:
        """Returns unit-length embeddings: (texts, d), and for each text whether it was cut.

        NaN for a text without tokens. Texts that are too long keep what is nearest to their gap,
        and their beginning when there is none.
        """


class TokenEncoder(Protocol):
    """States of the tokens of a text after one layer of an encoder."""

    def __hash__(self) -> int: ...
    def ids(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Returns vocabulary ids of texts as the model reads them, special tokens included."""

    def weightless(self, ids: Sequence[int]) -> Bools:
        """Returns which of these ids are the tokens that stand for a text as a whole and for its
        end ([CLS], [SEP]); a tokenizer may have neither."""

    def of(self, texts: Sequence[str]) -> list[TextStates]:
        """Returns the states of these texts."""

    def input_vectors(self, words: Sequence[str]) -> list[Singles | None]:
        """Returns what the model reads for each word before any context: the mean of its tokens'
        input embeddings, (d,); None for a word that it has no tokens for."""


class Classifier(Protocol):
    """P(label | text).

    Attributes:
        labels: the model's own names of its labels, in the order of the columns.
    """

    @property
    def labels(self) -> tuple[str, ...]: ...
    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns ids of texts, without special tokens; none for a text that the model can't
        read."""

    def probabilities(self, texts: Sequence[str], *, marks: bool = False) -> tuple[Floats, Bools]:
        """Returns P(label | text), (texts, labels), NaN for a text without tokens; and whether the
        model saw less than all of it, (texts,).

        Args:
            texts: what to read.
            marks: special tokens in the texts are marks, as in a judge's template, and no text.
        """


class PairRegressor(Protocol):
    """A number for two texts that are read together."""

    def values(self, pairs: Sequence[tuple[str, str]]) -> tuple[Floats, Bools]:
        """Returns the model's number for each pair, NaN if either text has no tokens: (pairs,); and
        whether the model saw less than all of it, (pairs,)."""


class ChoosingModel(Protocol):
    """P(number | prompt) of each of a few numbers.

    Attributes:
        limit: how many tokens of a prompt the model takes.
        control_tokens: what a text must not hold, since the model would read it as a command.
    """

    @property
    def limit(self) -> int: ...
    @property
    def control_tokens(self) -> tuple[str, ...]: ...
    def length(self, prompt: str) -> int:
        """Returns the number of tokens of a prompt."""

    def log_p(self, prompts: Sequence[str], numbers: Sequence[int]) -> Floats:
        """Returns log P(number | prompt): (prompts, numbers)."""


class SegmentSampler(Protocol):
    """Writes candidates for a gap.

    Attributes:
        sees_right: whether it reads what follows a gap.
        choices: every choice that could change a segment, by name.
    """

    @property
    def sees_right(self) -> bool: ...
    @property
    def choices(self) -> Mapping[str, str]: ...
    def infill(
        self,
        sources: Sequence[Gapped],
        *,
        seed: int,
        max_tokens: int,
        keys: Sequence[tuple[int, ...]],
    ) -> list[str]:
        """Returns a segment for the gap of each source, without blanks around it.

        Args:
            sources: texts with a gap.
            seed: of all random numbers.
            max_tokens: of the longest segment.
            keys: what tells the random numbers of one source from another's.
        """


# -- servers


class Alternative(NamedTuple):
    """A token that could have stood at a place, and its log-probability."""

    token: str
    log_p: float


class AnswerToken(NamedTuple):
    """A token of an answer, and the likeliest ones at its place, itself among them."""

    token: str
    alternatives: tuple[Alternative, ...]


class ChatAnswer(NamedTuple):
    """What a model wrote, and token by token what else it could have; None if that is not told."""

    text: str
    steps: tuple[AnswerToken, ...] | None = None


class Completion(NamedTuple):
    """What a server wrote to continue a chat.

    Attributes:
        text: of the answer.
        tokens: of the answer, as the server counts them; 0 where it does not.
        seconds: from the first request to the answer.
    """

    text: str
    tokens: int
    seconds: float


class Refusal(NamedTuple):
    """Why a server never answers this prompt, and others perhaps."""

    reason: str


class Costs(NamedTuple):
    """What asking took.

    Attributes:
        requests: all that were sent; `retries` of them again.
        prompt_tokens, answer_tokens: as the server counts them; 0 where it does not.
        answers: those that were read, `unparsable` of them in vain.

    >>> print(Costs(64, 2, 12_000, 64, 62, 1))
    64 requests (2 again), 12,000 prompt tokens, 64 answer tokens, 1 of 62 answers unparsable
    """

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    answers: int = 0
    unparsable: int = 0

    def __str__(self) -> str:
        return (
            f"{self.requests:,} requests ({self.retries:,} again), "
            f"{self.prompt_tokens:,} prompt tokens, {self.answer_tokens:,} answer tokens, "
            f"{self.unparsable:,} of {self.answers:,} answers unparsable"
        )


class ChatModel(Protocol):
    """Answers prompts in words."""

    @property
    def costs(self) -> Costs: ...
    def count(self, **more: int) -> None:
        """Adds to the costs, by their names."""

    def gives_log_probabilities(self) -> bool:
        """Returns whether the alternatives of each token are told."""

    def answers(
        self, prompts: Sequence[str], *, n: int, temperature: float, log_probabilities: bool
    ) -> list[list[ChatAnswer] | Refusal]:
        """Returns `n` answers to each prompt, in the order of the prompts."""


@dataclass(frozen=True)
class GapStyle:
    """How a family of models writes a gap, and what its decoder reads before the target.

    Attributes:
        token: marks the gap in the source.
        blanks: whether blanks always surround the token, whatever the text around it.
        decoder_prefix: tokens that the decoder reads after its start token and before the target;
            they are part of the pre-training format, not of the target, and are scored on demand
            only.
    """

    token: str
    blanks: bool
    decoder_prefix: tuple[str, ...] = ()

    def join(self, source: Gapped) -> str:
        """Returns the source as the model reads it."""
        if not source.gap:
            return source.without_gap
        left, right = source.left, source.right
        if self.blanks:
            left = left if not left or left[-1:].isspace() else f"{left} "
            right = right if not right or right[:1].isspace() else f" {right}"
        return left + self.token + right


GAP_STYLES: Mapping[str, GapStyle] = {
    "pegasus": GapStyle("<mask_1>", blanks=True),
    "t5": GapStyle("<extra_id_0>", blanks=False, decoder_prefix=("<extra_id_0>",)),
    "bart": GapStyle("<mask>", blanks=False, decoder_prefix=("<s>",)),
}

PLAIN = GapStyle("", blanks=False)
"""Sources without gaps."""

FIM = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
"""Tokens of causal models that were trained to fill in the middle: one precedes each part."""
