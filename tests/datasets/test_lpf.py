"""Runs of the level-playing-field study: folders, results and texts, in rows of our own."""

from __future__ import annotations

import json

import pytest

from levelfield.core.errors import UserError
from levelfield.datasets import lpf

HEADER = "id,original_id,prompt,control_attribute_value,text\n"


def results(folder: str, control: str, name: str = "", **content: object) -> dict[str, str]:
    named = name or f"evaluation_results_{folder}"
    return {f"results/{control}/{folder}/{named}.json": json.dumps(content)}


def processed(folder: str, control: str, rows: str) -> dict[str, str]:
    return {f"results/{control}/{folder}/processed_{folder}.csv": HEADER + rows}


def test_a_run_is_what_its_folder_says(files, tmp_path):
    few = "Llama-2-70b-chat-hf-owt_neutral_prompts-topic-few_shot-len100-9817"
    plain = "ctg_bart-cloze_2018_test-keywords-None-len20-789"
    partial = f"evaluation_results_ppl_{plain}"
    files(
        all={
            **results(few, "topic", perplexity={"gpt2": {"overall": 1.5}}),
            **results(plain, "keywords", coverage=3),
            **results(plain, "keywords", name=partial, coverage="partial"),
        }
    )
    first, second = lpf.runs(tmp_path)
    assert first == lpf.PublishedRun(
        name=few,
        system="Llama-2-70b-chat-hf",
        dataset="owt_neutral_prompts",
        control="topic",
        prompting="few_shot",
        length=100,
        seed=9817,
        results={"perplexity": {"gpt2": {"overall": 1.5}}},
    )
    assert first.technique == "Llama-2-70b-chat-hf few_shot"
    assert (second.technique, second.prompting, second.length) == ("ctg_bart", "", 20)
    assert second.results == {"coverage": 3}
    assert lpf.runs(tmp_path, control="topic") == [first]


def test_what_is_not_a_run_is_an_error_of_one_line(files, tmp_path):
    with pytest.raises(UserError, match="no run of sentiment, topic"):
        lpf.runs(tmp_path)
    with pytest.raises(UserError, match="there are sentiment, topic, keywords, multiple"):
        lpf.runs(tmp_path, control="style")
    files(all=results("something-else", "topic"))
    with pytest.raises(UserError, match="something-else: expected a folder named"):
        lpf.runs(tmp_path)
    path = tmp_path / "results/topic/something-else/evaluation_results_something-else.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="not JSON"):
        lpf.runs(tmp_path)


ASK = 'Write a story starting with ""{}"" with a {}'
SHOT = ASK.format("Old", "positive sentiment\nFalcon: Old times.\nUser: ")
POSITIVE = {"sentiment": "positive"}


@pytest.mark.parametrize(
    ("system", "prompting", "control", "id", "cell", "value", "prompt", "expected"),
    [
        (
            "gedi",
            "None",
            "sentiment",
            "7",
            "A dog, it ran.",
            "positive",
            "A dog, it ran.",
            POSITIVE,
        ),
        (
            "pplm",
            "None",
            "sentiment",
            "7",
            "very_positive:At 9:15",
            "positive",
            "At 9:15",
            POSITIVE,
        ),
        (
            "pplm",
            "None",
            "multiple",
            "7",
            "very_positive science:So",
            "positive#World",
            "So",
            {**POSITIVE, "topic": "World"},
        ),
        ("ctrl", "None", "topic", "7", "Fitness A dog", "Sports", "A dog", {"topic": "Sports"}),
        (
            "ctg_bart",
            "None",
            "keywords",
            "7",
            "A dog",
            "oak#big elm",
            "A dog",
            {"keywords": ("oak", "big elm")},
        ),
        (
            "Llama-2-70b-chat-hf",
            "zero_shot",
            "topic",
            "7",
            ASK.format("A dog, it ran.", "World topic [/INST] "),
            "World",
            "A dog, it ran.",
            {"topic": "World"},
        ),
        (
            "falcon-40b-instruct",
            "few_shot",
            "sentiment",
            "7",
            SHOT + ASK.format("New", "negative sentiment\n"),
            "negative",
            "New",
            {"sentiment": "negative"},
        ),
        (
            "falcon-40b-instruct",
            "zero_shot",
            "keywords",
            "7",
            ASK.format("New", '""oak"", ""elm"" keywords'),
            "oak#elm",
            "New",
            {"keywords": ("oak", "elm")},
        ),
        (
            "falcon-40b-instruct",
            "few_shot",
            "topic",
            "PPLM-Discrim_1",
            "anything",
            "World",
            "The book",
            {"topic": "World"},
        ),
    ],
)
def test_the_prompt_of_a_text_is_the_content_prefix(
    files, system, prompting, control, id, cell, value, prompt, expected
):
    folder = f"{system}-sts_benchmark_test-{control}-{prompting}-len50-3443"
    row = f'{id}_x,{id},"{cell}",{value},"Some text,\nin two lines"\n'
    (sample,) = lpf.texts(files(**{control: processed(folder, control, row)}))
    assert sample.prompt == prompt
    assert sample.control == expected
    assert sample.text == "Some text,\nin two lines"
    assert sample.extra.get("input", prompt) == cell.replace('""', '"')
    assert (sample.dataset, sample.seed) == ("sts_benchmark_test", 3443)
    assert sample.system == (f"{system} {prompting}" if prompting != "None" else system)
    assert sample.id == f"{folder}:1"


def test_files_that_are_not_texts_are_not_read_as_such(files):
    folder = "gedi-pplm_prompts-topic-None-len100-789"
    parts = files(topic=processed(folder, "topic", ""), topic_results=results(folder, "topic"))
    assert lpf.texts(parts) == []
