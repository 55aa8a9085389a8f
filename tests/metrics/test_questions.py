"""P(yes) against the logits of the decoder's first step, one question at a time."""

from __future__ import annotations

import dataclasses
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.core.sample import Sample
from levelfield.metrics import questions
from levelfield.metrics.questions import (
    CustomQuestion,
    QuestionInput,
    YesNoQuestion,
    load_question,
    shipped,
)
from levelfield.models.loading import Loading

Folders = dict[str, Path]
SHIPPED = (
    questions.QuestionsCoherence,
    questions.QuestionsEngagingness,
    questions.QuestionsGroundedness,
    questions.QuestionsNaturalness,
    questions.QuestionsUnderstandability,
)
DIALOGUE = ("Is the lake cold?", "It froze last night. 🙂", "Then we can skate.")
SAMPLE = Sample("a", "Then we can skate.", source="The lake froze.", context=DIALOGUE[:2])


class PlainLoop:
    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def log_p(self, source: str, ids: list[int]) -> float:
        """Σ log p of a target's ids."""
        start = [self.model.config.decoder_start_token_id]
        before = self.tokenizer("").input_ids
        start += before[: before.index(self.tokenizer.eos_token_id)]  # BART's <s>
        with torch.no_grad():
            logits = self.model(
                input_ids=self.tokenizer(source, return_tensors="pt").input_ids,
                decoder_input_ids=torch.tensor([[*start, *ids[:-1]]]),
            ).logits[0, len(start) - 1 :]
        table = logits.double().log_softmax(-1)
        return sum(table[place, id].item() for place, id in enumerate(ids))

    def p_yes(self, source: str, yes: str = "Yes", no: str = "No") -> float:
        """By the words' first tokens; by all of them and the end token if both begin alike."""
        words = [self.ids(yes), self.ids(no)]
        end = [self.tokenizer.eos_token_id]
        alike = words[0][0] == words[1][0]
        compared = [word + end if alike else word[:1] for word in words]
        p_yes, p_no = (np.exp(self.log_p(source, ids)) for ids in compared)
        return float(p_yes / (p_yes + p_no))


@pytest.fixture(params=tiny.FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def t5(tiny_folders: Folders) -> str:
    return str(tiny_folders["t5"])


@pytest.fixture
def question_file(tmp_path: Path) -> Any:
    def write(template: str = "Is it so? </s> <text>", **words: str) -> str:
        answers = "".join(f'{key} = "{word}"\n' for key, word in words.items())
        (tmp_path / "own.toml").write_text(f'[questions.own]\ntemplate = "{template}"\n{answers}')
        return str(tmp_path / "own.toml")

    return write


def filled(template: str, sample: Sample = SAMPLE, context: str | None = None) -> str:
    dialogue = "\n".join(sample.context) if context is None else context
    return (
        template.replace("<text>", sample.text)
        .replace("<source>", sample.source)
        .replace("<context>", dialogue)
    )


@pytest.mark.thinned
@pytest.mark.parametrize("metric", SHIPPED)
def test_p_of_yes_is_the_plain_loops(family, tiny_folders, metric):
    folder = tiny_folders[family]
    question = metric(model=str(folder))
    plain = PlainLoop(folder)
    template = shipped()[question.name.removeprefix("questions.")].template
    scores = question.score([SAMPLE])
    assert scores.values[0] == pytest.approx(plain.p_yes(filled(template)), abs=1e-6)
    assert scores.direction == "higher"


@pytest.mark.parametrize("metric", SHIPPED)
def test_a_shipped_question_says_which_fields_it_names_before_it_is_made(metric, t5):
    assert metric.requires == metric(model=t5).requires


def test_order_company_and_batches_change_no_value(t5):
    samples = [
        Sample(str(n), text, context=tuple(tiny.texts()[n : n + 1 + n % 3]))
        for n, text in enumerate([*tiny.texts()[:5], "a", "日本語", "🙂"])
    ]
    scores = questions.QuestionsCoherence(model=t5).score(samples).values
    assert len(set(scores.round(6))) > 1
    again = (
        questions.QuestionsCoherence(model=t5, loading=Loading(batch_tokens=1))
        .score(samples[::-1])
        .values[::-1]
    )
    alone = [questions.QuestionsCoherence(model=t5).score([sample]).values[0] for sample in samples]
    np.testing.assert_allclose(again, scores, atol=1e-6)
    np.testing.assert_allclose(alone, scores, atol=1e-6)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("yes", "no", "alike"),
    [("the lake", "a lake", False), ("the", "a lake", False), ("the lake", "the a the", True)],
)
def test_first_tokens_are_compared_and_whole_words_where_those_are_the_same(
    family, tiny_folders, question_file, yes, no, alike
):
    plain = PlainLoop(tiny_folders[family])
    assert (plain.ids(yes)[0] == plain.ids(no)[0]) is alike
    metric = CustomQuestion(question=question_file(yes=yes, no=no), model=str(tiny_folders[family]))
    expected = plain.p_yes(filled("Is it so? </s> <text>"), yes, no)
    assert metric.score([SAMPLE]).values[0] == pytest.approx(expected, abs=1e-6)


def test_swapping_the_answers_gives_the_other_probability(t5, question_file):
    yes = (
        CustomQuestion(question=question_file(yes="Yes", no="No"), model=t5)
        .score([SAMPLE])
        .values[0]
    )
    no = (
        CustomQuestion(question=question_file(yes="No", no="Yes"), model=t5)
        .score([SAMPLE])
        .values[0]
    )
    assert yes + no == pytest.approx(1)


def test_over_sentences_the_answers_are_averaged(t5, tiny_folders):
    sample = Sample("a", "It froze. We skated on it! Did you?")
    plain, template = PlainLoop(tiny_folders["t5"]), shipped()["naturalness"].template
    sentences = ("It froze.", "We skated on it!", "Did you?")
    expected = [plain.p_yes(template.replace("<text>", sentence)) for sentence in sentences]
    scores = questions.QuestionsNaturalness(model=t5, over="sentences").score([sample])
    assert scores.values[0] == pytest.approx(np.mean(expected), abs=1e-6)
    assert scores.parts is not None
    np.testing.assert_allclose(scores.parts["score"], expected, atol=1e-6)
    assert scores.parts["weight"].to_list() == pytest.approx([1 / 3] * 3)


def test_over_sum_the_answers_to_each_sentence_are_added_up(t5):
    sample = Sample("a", "It froze. We skated on it! Did you?", context=("Hello.",))
    mean, sum_ = (
        questions.QuestionsEngagingness(model=t5, over=over) for over in ("sentences", "sum")
    )
    assert sum_.score([sample]).values[0] == pytest.approx(3 * mean.score([sample]).values[0])
    sentence = dataclasses.replace(sample, text="It froze.")
    assert sum_.score([sentence]).values[0] == pytest.approx(mean.score([sentence]).values[0])
    assert "|over:sum|segmenter:punkt-english|" in sum_.signature


def test_over_turns_each_is_asked_about_with_those_before_it(t5, tiny_folders):
    sample = Sample("a", "\n".join(DIALOGUE) + "\n\n", context=("never read",))
    plain, template = PlainLoop(tiny_folders["t5"]), shipped()["coherence"].template
    expected = [
        plain.p_yes(filled(template, Sample("", DIALOGUE[n]), "\n".join(DIALOGUE[:n])))
        for n in (1, 2)
    ]
    metric = questions.QuestionsCoherence(model=t5, over="turns")
    assert metric.requires == {"text"}
    scores = metric.score([sample, Sample("b", "One turn.")])
    assert scores.values[0] == pytest.approx(np.mean(expected), abs=1e-6)
    assert scores.undefined == {"b": "one turn only"}
    alone = questions.QuestionsNaturalness(model=t5, over="turns").score(
        [sample, Sample("b", "One turn.")]
    )
    assert not alone.undefined  # it names no context, so a first turn can be asked about
    assert alone.parts is not None
    assert len(alone.parts) == 4


def test_a_long_context_loses_its_oldest_turns_and_a_long_text_its_end(tmp_path, question_file):
    folder = tiny.save("t5", tmp_path / "t5", positions=60)
    plain = PlainLoop(folder)
    template = "So? </s> <context> </s> <text>"
    turns = tuple(f"Turn {n} is about the lake." for n in range(30))
    metric = CustomQuestion(question=question_file(template), model=str(folder))
    long = Sample("a", "It froze.", context=turns)
    scores = metric.score([long, Sample("b", "It froze.", context=turns[-1:])])
    assert scores.truncated == {"a"}

    def source(kept: int) -> str:
        return filled(template, long, "\n".join(turns[-kept:]))

    most = max(n for n in range(1, 30) if len(plain.ids(source(n))) <= 59)
    assert 1 < most < 29
    assert scores.values[0] == pytest.approx(plain.p_yes(source(most)), abs=1e-6)
    one_long_turn = metric.score([Sample("c", "It froze.", context=(" ".join(turns),))])
    assert one_long_turn.truncated == {"c"}
    assert np.isfinite(one_long_turn.values).all()


@pytest.mark.parametrize(
    ("sample", "metric", "reason"),
    [
        (Sample("a", " \n", context=("b",)), questions.QuestionsCoherence, "empty text"),
        (Sample("a", "b"), questions.QuestionsCoherence, "no context"),
        (Sample("a", "b", context=("", " ")), questions.QuestionsCoherence, "no context"),
        (Sample("a", "b"), questions.QuestionsGroundedness, "no source"),
    ],
)
def test_what_has_no_value_has_a_reason(t5, sample, metric, reason):
    other = Sample("b", "It rained.", source="Rain.", context=("Wet?",))
    scores = metric(model=t5).score([sample, other])
    assert scores.undefined == {"a": reason}
    assert np.isfinite(scores.values[1])
    assert metric(model=t5).score([sample]).undefined == {"a": reason}


def test_a_question_may_name_what_the_control_wants(t5, question_file, tiny_folders):
    template = "Is this <control.sentiment>, of <control.keywords>? </s> <text>"
    metric = CustomQuestion(question=question_file(template), model=t5)
    assert metric.requires == {"text", "control"}
    control = {"sentiment": "positive", "keywords": ("ice", "snow")}
    samples = [Sample("a", "We skate.", control=control), Sample("b", "We skate.", control={})]
    scores = metric.score(samples)
    expected = PlainLoop(tiny_folders["t5"]).p_yes("Is this positive, of ice, snow? </s> We skate.")
    assert scores.values[0] == pytest.approx(expected, abs=1e-6)
    assert scores.undefined == {"b": "control has no keywords"}


def test_fields_written_out_in_a_text_stay_text():
    question_input = QuestionInput("", {"text": "<context> & \\1 <text>"}, ("Hm.",))
    question = YesNoQuestion("", "<text> </s> <context>")
    assert question_input.source(question) == "<context> & \\1 <text> </s> Hm."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("questions = 3", r"expected at least one table, such as [questions.NAME]"),
        ("[questions.a]\nyes = 'Yes'", "questions.a: template: expected a string"),
        ("[questions.a]\ntemplate = 'Is it?'", "template: expected <text> in it"),
        ("[questions.a]\ntemplate = '<text> <reponse>'", "there is no field <reponse>"),
        ("[questions.a]\ntemplate = '<text>'\nyep = 'y'", "yep: there is no such key"),
        ("[questions.a]\ntemplate = '<text>'\nno = 'Yes'", "expected two different words"),
        ("[questions.a", "not a TOML file"),
        ("[questions.a]\ntemplate='<text>'\n[questions.b]\ntemplate='<text>'", "which question?"),
    ],
)
def test_a_file_that_is_wrong_says_where_and_what_was_expected(tmp_path, content, message):
    (tmp_path / "own.toml").write_text(content)
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        load_question(str(tmp_path / "own.toml"))
    assert "own.toml" in str(raised.value)


def test_a_question_is_found_by_name_file_or_both(tmp_path):
    assert load_question("coherence") is shipped()["coherence"]
    path = tmp_path / "own.toml"
    path.write_text("[questions.a]\ntemplate='A <text>'\n[questions.b]\ntemplate='B <text>'")
    assert load_question(f"{path}:b").template == "B <text>"
    for wrong, message in (("coherent", "there are coherence"), (f"{path}:c", "there are a, b")):
        with pytest.raises(UserError, match=message):
            load_question(wrong)
    with pytest.raises(UserError, match=r"absent\.toml can't be read"):
        load_question("absent.toml")


def test_answers_that_are_the_same_to_the_model_are_refused(t5, question_file):
    with pytest.raises(ModelError, match="can't tell its answers"):
        CustomQuestion(question=question_file(yes="Yes", no=" Yes"), model=t5).score([SAMPLE])


def test_the_signature_names_the_question_and_its_wording(t5, question_file):
    signature = CustomQuestion(question=question_file(), model=t5).signature
    assert re.search(r"question:own@[0-9a-f]{8}\|over:text", signature)
    other = CustomQuestion(question=question_file("Is it not so? </s> <text>"), model=t5).signature
    assert signature != other
    assert pickle.loads(pickle.dumps(questions.QuestionsCoherence(model=t5))).signature
