"""Texts whose characters were written in one way and read in another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.entities import html5

from levelfield.study.audit.findings import AuditedStudy, Finding, Limits, counted, share_found
from levelfield.study.audit.texts import Text, script_of

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]{2,}")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|([A-Za-z][A-Za-z0-9]{1,30}));")
_TAG = re.compile(
    r"</?(?:br|p|div|span|b|i|em|strong|a|ul|ol|li|h[1-6]|img|table|tr|td|html|body|script|title)"
    r"(?:\s[^<>]{0,200})?\s*/?>",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(?:[nrt]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\"'])")
_URL = re.compile(r"%(?:20|2[1-9A-Fa-f]|[CDEcde][0-9A-Fa-f]%[89ABab][0-9A-Fa-f])")
_SUBWORD = re.compile(
    "[\u0120\u010a\u2581]"  # of byte-level BPE and SentencePiece
    r"|\w@@(?:\s|$)|(?:^|\s)##\w|</w>|<0x[0-9A-F]{2}>"
    r"|\u00e2\u0122."  # beginning of a mark such as ’ in byte-level BPE
)
_OF_SUBWORDS = ("\u0120", "\u010a", "\u2581", "@@", "##", "</w>", "<0x", "\u00e2\u0122")
_TREEBANK = re.compile(r"-(?:LRB|RRB|LSB|RSB|LCB|RCB)-|``| @[-.,]@ |(?:^|\s)''(?:\s|$)")
_OF_TREEBANKS = ("-LRB-", "-RRB-", "-LSB-", "-LCB-", "-RSB-", "-RCB-", "``", "''", " @", "@ ")
_LITERAL = re.compile(r"\A\s*(?:b?['\"]?\[\s*['\"]|b['\"]|\{\s*['\"]\w+['\"]\s*:)")
# control characters but \t, \n, \r; invisible ones; private ones; halves of a pair
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff\ufffe\uffff\ue000-\uf8ff\ud800-\udfff]"
)


def wrong_encoding(study: AuditedStudy) -> list[Finding]:
    """Texts that hold traces of how they were stored, which no system wrote.

    UTF-8 read in another encoding (`â€™`, `Ã©`), HTML entities and tags (`&#39;`, `<br />`),
    escapes written out (`\\\\n`, `\\\\u2019`, `%20`), marks of tokenizers (`Ġ`, `▁`, `@@`, `##ing`,
    `-LRB-`), literals of Python or JSON (`b'…'`, `['…']`, `{"text": …}`), control characters and
    invisible ones. Serious from 5 % of the texts of a system on; silent below 2 %, since texts of
    the web hold such things by themselves.
    """
    findings = []
    for cells in study.systems.values():
        texts = study.of_system(cells)
        counts: Counter[str] = Counter()
        hits = []
        for text in texts:
            kinds = set(_traces(text))
            counts.update(kinds)
            if kinds:
                hits.append(text)
        what = f"hold traces of how they were stored: {counted(counts)}"
        findings += share_found("wrong-encoding", Limits(0.05, 0.02), what, hits, texts)
    return findings


def _traces(text: Text) -> Iterator[str]:
    whole = text.sample.text
    if not whole.isascii() and any(map(_read_twice, _BEYOND_ASCII.findall(whole))):
        yield "UTF-8 read in another encoding"
    if "&" in whole and any(not name or name in _NAMES for name in _ENTITY.findall(whole)):
        yield "HTML entities"
    if "<" in whole and _TAG.search(whole):
        yield "HTML tags"
    if "\\" in whole and _ESCAPE.search(whole):
        yield "escapes"
    if "%" in whole and _URL.search(whole):
        yield "escapes of URLs"
    if any(part in whole for part in _OF_SUBWORDS) and _SUBWORD.search(whole):
        yield "marks of subwords"
    if any(part in whole for part in _OF_TREEBANKS) and _TREEBANK.search(whole):
        yield "marks of a treebank"
    if _LITERAL.match(whole) or _LITERAL.match(text.written):
        yield "literals of a program"
    if not whole.isprintable() and _CONTROL.search(whole):
        yield "control characters"


_NAMES = frozenset(name.removesuffix(";") for name in html5)


def _bytes_of(encoding: str) -> dict[str, int]:
    """Character -> byte beyond ASCII; bytes without a character stand for themselves."""
    read = {bytes([b]).decode(encoding, "ignore") or chr(b): b for b in range(128, 256)}
    return {chr(b): b for b in range(128, 160)} | read


_READ_AS = tuple(map(_bytes_of, ("cp1252", "latin-1", "cp1251")))
_MAC = re.compile(
    "\u201a\u00c4|\u221a[\u00a9\u00ae\u00b1\u2020\u2264\u2265\u00a2\u00a7\u00df\u00b4]"
)
_IMPLAUSIBLE = re.compile("[\u0080-\u009f\u0180-\u036f\u0530-\u058f\u0700-\u08ff]")


# how the first byte of Latin letters, punctuation, emoji and Cyrillic shows in these encodings
_LEADS = frozenset("РСÐÑÃÂâðвр")


def _read_twice(run: str) -> bool:
    """Whether characters beyond ASCII, as bytes of an older encoding, are UTF-8 of others.

    One such character is chance in words of two letters, unless it begins as most of them do.
    """
    for table in _READ_AS:
        if all(character in table for character in run):
            read = bytes(table[character] for character in run).decode("utf-8", "replace")
            # a closing quote after a letter may be valid, but of a script that is hardly meant
            if "\ufffd" in read or _IMPLAUSIBLE.search(read):
                continue
            if run[0] in _LEADS or (len(read) > 1 and len({script_of(c) for c in read}) == 1):
                return True
    return bool(_MAC.search(run))
