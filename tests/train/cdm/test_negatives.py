"""Negatives in a file: the same bytes however often the run was killed, and nothing hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import tiny
from levelfield.core.errors import UserError
from levelfield.models.contracts import Gapped
from levelfield.train.cdm.contrast import ContrastSampler, Pretrained
from levelfield.train.cdm.manipulate import strategy
from levelfield.train.cdm.negatives import Negatives, make_negatives

TEXTS = [
    ("a", ("Have you seen the river?", "I have.", "It was higher than the bridge.")),
    ("b", ("One turn only",)),
    ("c", ()),
    ("d", ("👍🏽", "火山\u2028on two lines")),
    ("a", ("An id that was there before.",)),
    ("e", ("", "word")),
    ("f", ("The last one.", "And its answer.")),
]


class Counting:
    """Writes the seed and the key; is killed after a number of calls."""

    sees_right = True

    def __init__(self, lives: int = 10**9, choices: Mapping[str, str] | None = None) -> None:
        self.lives, self.choices = lives, choices or {"gamma": "1"}
        self.calls = 0

    def infill(
        self, sources: Sequence[Gapped], *, seed: int, max_tokens: int, keys: Any
    ) -> list[str]:
        self.calls += 1
        if self.calls > self.lives:
            raise KeyboardInterrupt
        return [f"{seed}:{key}"[:max_tokens] for key, _ in zip(keys, sources, strict=True)]


def make(out: Path, sampler: Any = None, **options: Any) -> Negatives:
    options = {"seed": 3, "batch": 2, **options}
    chosen = strategy(options.pop("strategy", "mixed-multi"))
    texts = options.pop("texts", TEXTS)
    return make_negatives(iter(texts), sampler or Counting(), chosen, out=out, **options)


def test_every_document_has_a_line_and_unchanged_ones_are_counted(tmp_path: Path):
    out = tmp_path / "new" / "negatives.jsonl"
    done: list[int] = []
    assert make(out, progress=done.append) == Negatives(out, documents=7, unchanged=1)
    assert done == [2, 2, 2, 1]
    lines = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert [(entry["id"], tuple(entry["positive"])) for entry in lines] == TEXTS
    assert [entry["id"] for entry in lines if entry["unchanged"]] == ["c"]
    for entry in lines:
        now = list(entry["positive"])
        for cut in entry["cuts"]:
            turn = now[cut["turn"]]
            assert turn[cut["begin"] : cut["end"]] == cut["old"]
            now[cut["turn"]] = turn[: cut["begin"]] + cut["new"] + turn[cut["end"] :]
        assert now == entry["negative"]
        assert entry["unchanged"] == (entry["positive"] == entry["negative"])
    assert lines[2] == {"id": "c", "positive": [], "negative": [], "cuts": [], "unchanged": True}


@pytest.mark.parametrize("lives", range(0, 12, 2))
def test_a_run_that_was_killed_goes_on_and_gives_the_same_bytes(tmp_path: Path, lives: int):
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    make(whole)
    calls = Counting()
    make(tmp_path / "counted.jsonl", calls)
    with pytest.raises(KeyboardInterrupt):
        make(killed, Counting(lives))
    before = killed.stat().st_size
    rest = Counting()
    make(killed, rest)
    assert killed.read_bytes() == whole.read_bytes()
    assert (rest.calls < calls.calls) == (before > 0)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_lines_do_not_depend_on_how_many_documents_go_together(tmp_path: Path, batch: int):
    make(tmp_path / "by two.jsonl")
    make(tmp_path / "otherwise.jsonl", batch=batch)
    by_two = (tmp_path / "by two.jsonl").read_bytes()
    assert (tmp_path / "otherwise.jsonl").read_bytes() == by_two


@pytest.mark.parametrize("junk", [b"", b"\0" * 5000])
@pytest.mark.parametrize("cut", [1, 40, 333, 700])
def test_a_line_that_a_crash_cut_is_written_again(tmp_path: Path, cut: int, junk: bytes):
    whole, crashed = tmp_path / "whole.jsonl", tmp_path / "crashed.jsonl"
    make(whole)
    make(crashed)
    crashed.write_bytes(whole.read_bytes()[:-cut] + junk)
    make(crashed)
    assert crashed.read_bytes() == whole.read_bytes()


def test_a_file_that_is_complete_is_left_as_it_is(tmp_path: Path):
    out = tmp_path / "negatives.jsonl"
    first = make(out)
    again = Counting()
    assert make(out, again) == first
    assert again.calls == 0


def test_more_documents_are_appended_as_if_they_had_been_there(tmp_path: Path):
    grown, whole = tmp_path / "grown.jsonl", tmp_path / "whole.jsonl"
    make(grown, texts=TEXTS[:5])
    make(grown)
    make(whole)
    assert grown.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"seed": 4}, "seed"),
        ({"strategy": "segment-single"}, "strategy"),
        ({"batch": 3}, "batch"),
        ({"sampler": Counting(choices={"gamma": "2"})}, "sampler"),
        ({"separator": "</UTT>"}, "separator"),
    ],
)
def test_a_file_made_with_other_settings_is_refused(
    tmp_path: Path, options: dict[str, Any], named: str
):
    out = tmp_path / "negatives.jsonl"
    make(out)
    before = out.read_bytes()
    with pytest.raises(UserError, match=rf"made with other settings \({named}\)"):
        make(out, **options)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    "texts",
    [
        [("z", ("Another id",)), *TEXTS[1:]],
        [*TEXTS[:3], ("d", ("other", "turns")), *TEXTS[4:]],
    ],
)
def test_a_file_made_of_other_documents_is_refused(tmp_path: Path, texts: list[Any]):
    out = tmp_path / "negatives.jsonl"
    make(out)
    before = out.read_bytes()
    with pytest.raises(UserError, match=r"from other documents: it has no line for '[zd]'"):
        make(out, texts=texts)
    assert out.read_bytes() == before


@pytest.mark.parametrize("fewer", [1, 4, 5])
def test_a_file_with_more_documents_than_given_is_refused(tmp_path: Path, fewer: int):
    out = tmp_path / "negatives.jsonl"
    make(out)
    with pytest.raises(UserError, match=f"more than the {fewer} given documents"):
        make(out, texts=TEXTS[:fewer])


def test_a_file_that_nothing_is_known_of_is_not_overwritten(tmp_path: Path):
    out = tmp_path / "mine.jsonl"
    out.write_text("what I wrote\n", encoding="utf-8")
    with pytest.raises(UserError, match="does not say what it was made with"):
        make(out)
    assert out.read_text(encoding="utf-8") == "what I wrote\n"


def test_no_documents_and_impossible_places_are_the_users_mistake(tmp_path: Path):
    with pytest.raises(UserError, match="no documents"):
        make(tmp_path / "none.jsonl", texts=[])
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="can't be written"):
        make(tmp_path / "file" / "negatives.jsonl")
    with pytest.raises(UserError, match="expected a seed of at least 0"):
        make(tmp_path / "x.jsonl", seed=-1)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["t5", "gpt2"])
def test_real_samplers_give_the_same_bytes_when_killed(tmp_path: Path, family: str):
    causal = family == "gpt2"
    tokenizer = (tiny.causal_tokenizer if causal else tiny.tokenizer)(family)
    build = tiny.causal_model if causal else tiny.model
    amateur, expert = (
        Pretrained(build(family, len(tokenizer), seed=seed), tokenizer, f"tiny-{seed}")
        for seed in (0, 1)
    )
    sampler = ContrastSampler(amateur, expert, 1.0)
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    negatives = make(whole, sampler, max_tokens=12)
    assert negatives.unchanged == 1

    def interrupted() -> Iterator[Any]:
        yield from TEXTS[:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(killed, sampler, max_tokens=12, texts=interrupted())
    make(killed, sampler, max_tokens=12)
    assert killed.read_bytes() == whole.read_bytes()
    settings = json.loads((tmp_path / "whole.jsonl.settings.json").read_text(encoding="utf-8"))
    assert settings["sampler"]["expert"] == "tiny-1"
