"""What a user can get wrong: one line that says where, what and what to do, or a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Run, Write, records

RAIN = "It rained all night. The river rose and the cellar filled with water."


def outcome(run: Run, write: Write, metric: str, **record: Any) -> dict[str, Any]:
    """What scores.jsonl says of one sample; a second one has all that a metric could want."""
    good = {"prompt": "It rained", "text": RAIN, "control": {"sentiment": "negative"}}
    texts = write("t.jsonl", [{"id": "odd", **record}, {"id": "good", **good}])
    ran = run("score", texts, "-m", f"ctrleval.{metric}")
    assert ran.code == 0, ran
    odd, good = records("scores.jsonl")
    assert good["value"] is not None
    return odd


COHERENCE, CONSISTENCY, RELEVANCE = "coherence", "consistency", "attribute-relevance"
SENTIMENT = {"sentiment": "positive"}


@pytest.mark.parametrize(
    ("metric", "record", "reason"),
    [
        (COHERENCE, {"text": ""}, "empty text"),
        (COHERENCE, {"text": " \n\t\u3000"}, "empty text"),
        (COHERENCE, {"text": "One sentence only."}, "one sentence only"),
        (COHERENCE, {"text": "🙂🙂🙂"}, "one sentence only"),
        (CONSISTENCY, {"text": "", "prompt": "It"}, "empty text"),
        (CONSISTENCY, {"text": RAIN}, "no prompt"),
        (CONSISTENCY, {"text": RAIN, "prompt": "it rained"}, "prompt is not a prefix of the text"),
        (CONSISTENCY, {"text": RAIN, "prompt": RAIN + "!"}, "prompt is not a prefix of the text"),
        (CONSISTENCY, {"text": RAIN, "prompt": RAIN}, "nothing after the prompt"),
        (RELEVANCE, {"text": RAIN}, "control names none of: sentiment, topic"),
        (RELEVANCE, {"text": RAIN, "control": {"mood": "x"}}, "control names none of: "),
        (
            RELEVANCE,
            {"text": RAIN, "control": {"sentiment": "gloomy"}},
            "unknown sentiment 'gloomy'",
        ),
        (
            RELEVANCE,
            {"text": RAIN, "control": {"sentiment": ["positive", "negative"]}},
            "unknown sentiment 'positive, negative'",
        ),
        (
            RELEVANCE,
            {"text": RAIN, "control": {"sentiment": "positive", "topic": "science"}},
            "control names several attributes: sentiment, topic",
        ),
    ],
)
def test_what_a_metric_can_not_measure_is_undefined_and_says_why(
    run: Run, write: Write, metric: str, record: dict[str, Any], reason: str
) -> None:
    odd = outcome(run, write, metric, **record)
    assert odd["value"] is None
    assert odd["undefined"].startswith(reason)


@pytest.mark.parametrize("nothing", ["\0", "\u200b\u200b", "\u00ad", "\x07\x1b"])
def test_characters_that_no_model_reads_are_no_text(run: Run, write: Write, nothing: str) -> None:
    odd = outcome(run, write, RELEVANCE, text=nothing, control=SENTIMENT)
    assert odd["value"] is None
    assert odd["undefined"]


@pytest.mark.parametrize(
    "text",
    [
        "🙂 What a day! 🙃 Nobody came 🏳️‍🌈.",
        "ירד גשם כל הלילה. הנהר עלה.",
        "\u202eIt rained\u202c. The river rose.",
        "e\u0301" * 50 + ". The river rose.",
        "It\0 rained. The river\0 rose.",
        "It rained.\u2028The river rose.",
        "[MASK] It rained. [SEP] The river rose. <mask> </s>",
    ],
)
def test_any_script_and_any_sign_has_a_value(run: Run, write: Write, text: str) -> None:
    odd = outcome(run, write, COHERENCE, text=text)
    assert -1 <= odd["value"] <= 1


@pytest.mark.parametrize("metric", [COHERENCE, CONSISTENCY, RELEVANCE])
def test_a_text_of_fifty_thousand_characters_has_a_value_and_counts_as_truncated(
    run: Run, write: Write, metric: str
) -> None:
    text = "The harbour " + "and the boats and the sea " * 1923 + ". We left."
    assert len(text) > 50_000
    texts = write("t.jsonl", [{"text": text, "prompt": "The harbour", "control": SENTIMENT}])
    (summary,) = run("score", texts, "-m", f"ctrleval.{metric}", "--json").json["metrics"]
    assert summary["overall"]["mean"] is not None
    assert summary["signature"].endswith("undefined:0 truncated:1")


@pytest.mark.slow
def test_the_work_for_a_long_text_grows_with_its_length_and_not_with_the_square_of_it(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.models.tokens import Tokens

    text = " ".join(f"The boat number {i} came back late with {i} fish." for i in range(150))
    read, ids = 0, Tokens.ids

    def counting(self: Tokens, texts: list[str], **words: bool) -> list[list[int]]:
        nonlocal read
        read += sum(map(len, texts))
        assert read < 100 * len(text), "every text is tokenised once for each of its sentences"
        return ids(self, texts, **words)

    run("score", write("warm.jsonl", [{"text": RAIN}]), "-m", "ctrleval.coherence")
    monkeypatch.setattr(Tokens, "ids", counting)
    ran = run("score", write("t.jsonl", [{"text": text}]), "-m", "ctrleval.coherence")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"text": "caf\xe9"}\n', "not UTF-8: byte 0xe9 at column 14"),
        (b'{"text": "a\0b"}\n', "NUL character at column 12"),
        (b'{"text": "a \\ud83d b"}\n', "text: a lone surrogate"),
        (b'{"text": "a", "control": {"\\ud83d": "b"}}\n', "a lone surrogate"),
        (b'{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}\n', 'id "1" was used at t.jsonl:1'),
        (b'{"text": 5}\n', "text: expected a string, found the number 5"),
        (b'{"text": null}\n', "text: null, expected a string"),
        (b'{"output": "a"}\n', "--map text=output"),
        (b'{"text": "a"\n', "not JSON"),
        (b"", "no samples in t.jsonl"),
        (b"\xff\xfe{\0", "UTF-16"),
        (b'{"text": "a", "seed": "x"}\n', "seed: expected a whole number"),
        (b'{"text": "a", "control": "positive"}\n', "control: expected an object"),
    ],
)
def test_a_file_that_is_no_samples_gets_one_line_with_its_place(
    run: Run, write: Write, content: bytes, said: str
) -> None:
    complaint = run("score", write("t.jsonl", content), "-m", "ctrleval.coherence").complaint
    assert complaint.startswith(("t.jsonl:", "no samples"))
    assert said in complaint
    assert not Path("scores.jsonl").exists()


def test_a_field_that_no_sample_has_is_a_mistake_and_not_a_page_of_undefined_values(
    run: Run, write: Write
) -> None:
    texts = write("t.jsonl", [{"text": RAIN}])
    said = run("score", texts, "-m", "ctrleval.attribute-relevance").complaint
    assert "--map control.sentiment=COLUMN" in said
    assert "prompt" in run("score", texts, "-m", "ctrleval.consistency").complaint
    ran = run("score", texts, "-m", "ctrleval")
    assert ran.code == 0
    assert ran.err.count("note: left out: ctrleval.") == 2
    assert {r["metric"] for r in records("scores.jsonl")} == {"ctrleval.coherence"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-m", "ctrleval.coherense"), "did you mean ctrleval.coherence"),
        (("-m", "bleu-42"), "there is no metric 'bleu-42'"),
        (("-m", ""), "there is no metric ''"),
        (("-m", "ctrleval", "-o", "weight=mean"), "weights"),
        (("-m", "ctrleval", "-o", "weights"), "expected NAME=VALUE"),
        (("-m", "ctrleval", "-o", "weights="), "expected NAME=VALUE"),
        (("-m", "ctrleval", "-o", "normalize=words"), "expected tokens or none"),
        (("-m", "ctrleval", "-o", "batch_tokens=many"), "a whole number"),
        (("-m", "ctrleval", "-o", "allow_pickle=perhaps"), "true or false"),
        (("-m", "ctrleval", "-o", "single=score", "-o", "single=score"), "single is given twice"),
        (("-m", "ctrleval", "-o", "language=klingon"), "option language=klingon: expected czech"),
        (("-m", "ctrleval", "-o", "iwf=nowhere.txt"), "iwf=nowhere.txt"),
        (("-m", "ctrleval", "-o", "iwf=."), "iwf=."),
        (("-m", "ctrleval", "-o", "iwf=wordfreq:tlh"), "wordfreq supports"),
        (("-m", "ctrleval", "-o", "attribute=gloom"), "there is no aspect 'gloom'"),
        (("-m", "ctrleval", "-o", "attribute=gloom.toml"), "gloom.toml can't be read"),
        (("-m", "ctrleval", "-o", "patterns=ppl-gpt"), "needs an encoder-decoder model"),
        (("-m", "ctrleval", "--colour"), "--colour"),
        (("-m", "ctrleval", "--seed", "x"), '"x": expected a whole number from 0 to 4,294,967,295'),
        pytest.param(("-m", "ctrleval", "--seed", "-1"), "--seed"),
        (("-m", "ctrleval", "--batch-tokens", "0"), '"0": expected a whole number from 1 on'),
        (
            ("-m", "ctrleval", "--dtype", "float16"),
            '"float16": expected float32 or bfloat16',
        ),
        (("-m", "ctrleval", "--device", "abacus"), '"abacus": expected auto, cpu, cuda'),
        (("-m", "ctrleval", "--device", "cuda:99"), "device 'cuda:99' can't be used"),
        (("-m", "ctrleval", "--ids", "mine"), '"mine": expected given or file'),
        (("-m", "ctrleval", "--map", "txt=text"), "did you mean text?"),
        (("-m", "ctrleval", "--map", "prompt=promt"), 'no record has "promt"'),
        (("-m", "ctrleval", "--map", "prompt"), "expected NAME=VALUE"),
        (("-m", "ctrleval", "--control", "positive"), "expected NAME=VALUE"),
        (("-m", "ctrleval", "--by", "colour"), "can be grouped by system"),
        (("-m", "ctrleval", "--by", "control.topic"), "can be grouped by system"),
        (("-m", "ctrleval", "--format", "docx"), "there are jsonl"),
        (("-m", "ctrleval", "--out", "missing/s.jsonl"), "there is no folder"),
        (("-m", "ctrleval", "--parts", "missing/p.jsonl"), "there is no folder"),
        (("-m", "ctrleval", "--report", "missing/p.html"), "there is no folder"),
        (("-m", "ctrleval", "--out", "."), "is a folder"),
        pytest.param(("-m", "ctrleval", "--out", ""), "--out"),
        pytest.param(("-m", "ctrleval", "--model", ""), "--model"),
    ],
)
def test_a_wrong_word_gets_one_line_that_says_what_is_right(
    run: Run, write: Write, words: tuple[str, ...], said: str
) -> None:
    record = {"text": RAIN, "prompt": "It rained", "control": SENTIMENT}
    complaint = run("score", write("t.jsonl", [record]), *words).complaint
    assert said in complaint
    assert sorted(p.name for p in Path().iterdir()) == ["t.jsonl"]


def test_an_option_that_one_aspect_does_not_take_says_which_aspect_it_is(
    run: Run, write: Write
) -> None:
    record = {"text": RAIN, "prompt": "It rained", "control": SENTIMENT}
    ran = run("score", write("t.jsonl", [record]), "-m", "ctrleval", "-o", "weights=nisf")
    assert "ctrleval.attribute-relevance" in ran.complaint


@pytest.mark.parametrize("option", ["--out", "--parts", "--report"])
def test_a_place_that_can_not_be_written_is_found_before_anything_is_scored(
    run: Run, write: Write, words: str, option: str
) -> None:
    ran = run(
        "score", write("t.jsonl", [{"text": "a"}]), "-m", words, "-o", "log=log", option, "no/file"
    )
    assert not Path("log").exists()
    assert "there is no folder" in ran.complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scroe",), "scroe"),
        (("score",), "FILE"),
        (("score", "missing.jsonl", "-m", "ctrleval"), "missing.jsonl: No such file"),
        (("score", ".", "-m", "ctrleval"), "is a folder"),
        (("metrics", "ctrlevall"), "did you mean ctrleval"),
        (("cache", "empty"), "empty"),
        (("train", "iwf", "--model", "offline/minilm", "--out", "x"), "CORPUS"),
    ],
)
def test_a_wrong_command_gets_one_line(run: Run, words: tuple[str, ...], said: str) -> None:
    assert said in run(*words).complaint


def test_a_file_of_another_format_gets_a_few_lines_and_no_more(run: Run, write: Write) -> None:
    ran = run("score", write("t.jsonl", "no json\n" * 500), "-m", "ctrleval.coherence")
    lines = ran.err.splitlines()
    assert ran.code == 2
    assert len(lines) == 21
    assert lines[-1] == "error: … and 480 more problems"


def test_a_traceback_is_shown_to_those_who_ask_for_it(run: Run, write: Write) -> None:
    texts = write("t.jsonl", "no json\n")
    ran = run("score", texts, "-m", "ctrleval.coherence", "--debug")
    assert ran.code == 2
    assert ran.err.startswith("Traceback")
    assert ran.err.splitlines()[-1].startswith("error: t.jsonl:1: not JSON")
    assert run("--debug", "score", texts, "-m", "ctrleval.coherence").err == ran.err


def test_the_ids_of_the_scores_are_those_of_the_input(run: Run, write: Write, words: str) -> None:
    ids = ["1", "ä", "a b", "a\tb", "🙂", "\u2028", '"']
    write("t.jsonl", "".join(json.dumps({"id": id, "text": "x"}) + "\n" for id in ids))
    assert run("score", "t.jsonl", "-m", words).code == 0
    assert [r["id"] for r in records("scores.jsonl")] == ids
