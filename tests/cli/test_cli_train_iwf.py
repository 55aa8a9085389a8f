"""`levelfield train iwf`: the counts are those of the formula, whatever the corpus comes in."""

from __future__ import annotations

import gzip
import lzma
import math
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import punkt
import pytest
from transformers import AutoTokenizer

from command_line import Ran, Run, Write, values
from levelfield.models.resolve import OFFLINE_MODEL, resolve

Folders = dict[str, Path]

CORPUS = """\
The harbour was empty. Dr. Lee counted the boats, and counted them again!

The boats had gone; nobody knew where.\r
Was it the storm? The storm had come late — too late for the boats.
"""
PACKED = gzip.compress(CORPUS.encode(), mtime=0)
TEXT = {
    "id": "a",
    "text": "The boats came back. Nobody had counted on it. The harbour master wept.",
    "prompt": "The boats",
}


def brute_force(tokenizer_folder: Path, vocabulary: int) -> list[float]:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    split = punkt.tokenizer_for("english")
    sentences = [s for line in CORPUS.split("\n") for s in split.tokenize(line) if s.strip()]
    assert len(sentences) == 5
    held = [set(tokenizer(s, add_special_tokens=False)["input_ids"]) for s in sentences]
    expected = []
    for token in range(vocabulary):
        f = sum(token in ids for ids in held)
        expected.append(math.log(1 + len(sentences)) / f if f else 0.0)
    return expected


@pytest.fixture
def train(run: Run) -> Callable[..., Ran]:
    def train(*corpus: object, model: object = OFFLINE_MODEL) -> Ran:
        return run("train", "iwf", *corpus, "--model", model, "--out", "iwf.txt")

    return train


def numbers() -> list[float]:
    return list(map(float, Path("iwf.txt").read_text().splitlines()))


@pytest.mark.parametrize(
    ("name", "pack"),
    [("c.txt", bytes), ("c", bytes), ("c.txt.gz", gzip.compress), ("c.xz", lzma.compress)],
)
def test_the_list_equals_counting_by_hand(
    train: Callable[..., Ran], write: Write, name: str, pack: Callable[[bytes], bytes]
) -> None:
    ran = train(write(name, pack(CORPUS.encode())))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("iwf.txt: 30,522 numbers")
    assert numbers() == brute_force(resolve(OFFLINE_MODEL).path, 30522)


def test_several_files_are_one_corpus_and_any_family_has_its_vocabulary(
    train: Callable[..., Ran], write: Write, tiny_folders: Folders
) -> None:
    first, second = CORPUS.split("\n", 1)
    files = write("1.txt", first), write("2.gz", gzip.compress(second.encode()))
    for family in ("pegasus", "t5", "bart"):
        assert train(*files, model=tiny_folders[family]).code == 0
        found = numbers()
        assert found == brute_force(tiny_folders[family], len(found))


def test_the_list_works_as_an_option_and_its_bytes_are_in_the_signature(
    train: Callable[..., Ran], run: Run, write: Write
) -> None:
    train(write("c.txt", CORPUS))
    write("first.txt", Path("iwf.txt").read_bytes())
    options = ("score", write("t.jsonl", [TEXT]), "-m", "ctrleval.coherence", "--json")
    with_list = run(*options, "-o", "iwf=first.txt").json["metrics"][0]
    without = run(*options).json["metrics"][0]
    assert "|iwf:file@" in with_list["signature"]
    assert with_list["overall"]["mean"] != without["overall"]["mean"]


def test_a_new_list_under_an_old_name_is_a_new_list(
    train: Callable[..., Ran], run: Run, write: Write
) -> None:
    def coherence(list: str) -> float | None:
        ran = run("score", "t.jsonl", "-m", "ctrleval.coherence", "-o", f"iwf={list}", "--no-cache")
        assert ran.code == 0, ran.err
        return values()["ctrleval.coherence", "a"]

    write("t.jsonl", [TEXT])
    train(write("c.txt", CORPUS))
    coherence("iwf.txt")
    train(write("c.txt", "Nobody had counted. Nobody had boats. Nobody came back on it."))
    write("other.txt", Path("iwf.txt").read_bytes())
    assert coherence("iwf.txt") == coherence("other.txt")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1.0\n" * 400, "400 numbers for a vocabulary of 30522"),
        pytest.param("1.0 2.0\n" * 30522, "one number per line"),
        pytest.param("", "0 numbers"),
        ("one\ntwo\n", "one number per line"),
        (b"\x80\x04\xff" * 50, "one number per line"),
        pytest.param("nan\n" * 30522, "finite"),
        pytest.param("-1\n" * 30522, "negative"),
    ],
)
def test_a_list_that_is_not_of_this_vocabulary_is_refused_in_one_line(
    run: Run, write: Write, content: str | bytes, said: str
) -> None:
    name = write(f"{zlib.crc32(repr(content).encode())}.txt", content)
    texts = write("t.jsonl", [TEXT])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ran = run("score", texts, "-m", "ctrleval.coherence", "-o", f"iwf={name}")
    assert said in ran.complaint
    assert not Path("scores.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("c.txt", b"caf\xe9\n", "not UTF-8"),
        ("c.gz", PACKED[:-20], "c.gz: can't be read"),
        ("c.gz", b"no gzip", "c.gz: can't be read"),
        pytest.param("c.gz", PACKED[:20] + b"\xff" * 80, "c.gz: can't be read"),
        ("c.xz", b"no xz", "c.xz: can't be read"),
        ("c.xz", lzma.compress(CORPUS.encode())[:-20], "c.xz: can't be read"),
        pytest.param("c.txt", "", "no sentence"),
        pytest.param("c.txt", " \n\n", "no sentence"),
    ],
)
def test_a_corpus_that_can_not_be_read_gets_one_line_and_no_list(
    train: Callable[..., Ran], write: Write, name: str, content: bytes | str, said: str
) -> None:
    ran = train(write(name, content))
    assert not Path("iwf.txt").exists()
    assert said in ran.complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.txt",), "no such corpus file: missing.txt"),
        (("c.txt", "--out", "no/where.txt"), "there is no folder"),
        (("c.txt", "--language", "klingon"), "Punkt supports"),
        (("c.txt", "--model", "./nowhere"), "there is no model folder"),
        pytest.param(("c.txt", "--out", "c.txt"), "c.txt"),
    ],
)
def test_a_wrong_word_gets_one_line(
    run: Run, write: Write, words: tuple[str, ...], said: str
) -> None:
    write("c.txt", CORPUS)
    ran = run("train", "iwf", "--model", OFFLINE_MODEL, "--out", "iwf.txt", *words)
    assert said in ran.complaint
    assert Path("c.txt").read_text() == CORPUS.replace("\r\n", "\n")


def test_a_place_that_can_not_be_written_is_found_before_the_corpus_is_counted(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.metrics import iwf

    def fail(*_: object) -> None:
        raise AssertionError("the corpus was counted")

    monkeypatch.setattr(iwf, "count", fail)
    options = ("--model", OFFLINE_MODEL, "--out", "no/where.txt")
    ran = run("train", "iwf", write("c.txt", CORPUS), *options)
    assert "there is no folder" in ran.complaint
