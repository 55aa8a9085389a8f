"""`levelfield train unigram`: the counts are those of the texts, whatever these come in."""

from __future__ import annotations

import gzip
import json
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from command_line import Ran, Run, Write
from levelfield.core.sample import Sample
from levelfield.metrics import unigram
from levelfield.metrics.fluency import SLOR

Folders = dict[str, Path]

TEXTS = ["The harbour was empty.", "", "Nobody knew where — the boats had gone! 🙂", "So.</s>"]
CORPUS = "".join(f"{text}\n" for text in TEXTS)
JSONL = "".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(TEXTS))


def brute_force(folder: Path, texts: list[str]) -> list[int]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    counts = Counter(
        id
        for text in texts
        for id in tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    )
    return [counts[id] for id in range(len(tokenizer))]


@pytest.fixture
def train(run: Run, causal_folders: Folders) -> Callable[..., Ran]:
    def train(*corpus: object, family: str = "gpt2") -> Ran:
        model = causal_folders[family]
        return run("train", "unigram", *corpus, "--model", model, "--out", "counts.txt")

    return train


def counts() -> list[int]:
    header, *lines = Path("counts.txt").read_text().splitlines()
    assert header.startswith(f"{unigram.HEADER}; tokenizer ")
    return list(map(int, lines))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.txt", CORPUS.encode()),
        ("c", CORPUS.replace("\n", "\r\n").encode()),
        ("c.txt", b"\xef\xbb\xbf" + CORPUS.encode()),
        ("c.txt.gz", gzip.compress(CORPUS.encode(), mtime=0)),
        ("c.xz", lzma.compress(CORPUS.encode())),
        ("c.jsonl", JSONL.encode()),
        ("c.json", json.dumps([{"text": text} for text in TEXTS]).encode()),
    ],
)
def test_the_counts_equal_counting_by_hand(
    train: Callable[..., Ran], write: Write, causal_folders: Folders, name: str, content: bytes
) -> None:
    for family in causal_folders:
        ran = train(write(name, content), family=family)
        assert (ran.code, ran.out) == (0, "")
        assert ran.err.startswith("counts.txt: 400 numbers")
        assert counts() == brute_force(causal_folders[family], TEXTS)


def test_several_files_are_one_corpus(
    train: Callable[..., Ran], write: Write, causal_folders: Folders
) -> None:
    assert train(write("a.txt", CORPUS), write("b.jsonl", JSONL)).code == 0
    assert counts() == brute_force(causal_folders["gpt2"], TEXTS * 2)


def test_slor_takes_the_counts_for_the_corpus_that_they_are_of(
    train: Callable[..., Ran], write: Write, causal_folders: Folders
) -> None:
    model = str(causal_folders["gpt2"])
    train(write("c.jsonl", JSONL))
    of_counts, of_texts = (SLOR(model=model, corpus=name) for name in ("counts.txt", "c.jsonl"))
    assert of_counts.signature == of_texts.signature
    samples = [Sample("a", "The boats came back.")]
    assert of_counts.score(samples).values == of_texts.score(samples).values
    other = SLOR(model=model, corpus=write("other.txt", "The boats came back.\n"))
    assert other.score(samples).values < of_counts.score(samples).values


def test_counts_of_another_tokenizer_with_as_many_tokens_are_refused(
    train: Callable[..., Ran], run: Run, write: Write, causal_folders: Folders
) -> None:
    assert train(write("c.txt", CORPUS), family="llama").code == 0
    score = ("score", "c.txt", "-m", "fluency.slor", "-o", "corpus=counts.txt")
    assert run(*score, "--model", causal_folders["llama"]).code == 0
    assert len(counts()) == 400  # as GPT-2's
    complaint = run(*score, "--model", causal_folders["gpt2"]).complaint
    assert complaint.startswith("corpus=counts.txt: counts with tokenizer ")
    assert "levelfield train unigram" in complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.txt",), "no such corpus file: missing.txt"),
        (("c.txt", "--out", "no/where.txt"), "there is no folder"),
        (("c.txt", "--out", "c.txt"), "c.txt"),
        (("c.txt", "--model", "./nowhere"), "there is no model folder"),
        (("empty.txt",), "no token"),
        (("bad.jsonl",), "bad.jsonl:1: not JSON"),
        (("latin.txt",), "latin.txt:1: not UTF-8"),
        (("c.jsonl.gz",), "unpack it first"),
    ],
)
def test_a_wrong_word_gets_one_line_and_no_list(
    run: Run, write: Write, causal_folders: Folders, words: tuple[str, ...], said: str
) -> None:
    write("c.txt", CORPUS)
    write("empty.txt", "\n\n")
    write("bad.jsonl", "{")
    write("latin.txt", b"caf\xe9\n")
    write("c.jsonl.gz", gzip.compress(JSONL.encode()))
    model = causal_folders["gpt2"]
    ran = run("train", "unigram", "--model", model, "--out", "counts.txt", *words)
    assert said in ran.complaint
    assert not Path("counts.txt").exists()
    assert Path("c.txt").read_text(encoding="utf-8") == CORPUS


def test_a_model_that_is_not_causal_is_refused(
    run: Run, write: Write, tiny_folders: Folders
) -> None:
    corpus = write("c.txt", CORPUS)
    ran = run("train", "unigram", corpus, "--model", tiny_folders["t5"], "--out", "counts.txt")
    assert "causal language model" in ran.complaint
