"""The formats of the rated sets, on rows of our own."""

from __future__ import annotations

import pytest

from levelfield.core.errors import InputError
from levelfield.datasets import rated
from levelfield.datasets.rated import CONTENT_METRICS, formality

AT = "data/commongen-trinity/annotated/commongen_"


def test_a_sentence_of_ctrleval_is_a_sample_of_its_set(files):
    parts = files(
        sentiment={"data/data_senti.txt": "positive\tThe pizza\tThe pizza was fine.\t4.4\t2\t3\n"},
        topic={"data/data_topic.txt": "science\tTo sum up\tTo sum up, atoms.\t1\t2\t5\n"},
    )
    first, second = rated.ctrleval(parts)
    assert (first.id, second.id) == ("data_senti:1", "data_topic:1")
    assert first.dataset == second.dataset == "ctrleval"
    assert first.system == second.system == ""
    assert first.control == {"sentiment": "positive"}
    assert second.ratings["attribute relevance"] == {"mean": 5.0}


@pytest.fixture
def trinity(files):
    base = {
        AT + "keys.txt": "cat, sit, mat\n\nbird, sing\n",
        AT + "test.txt": "A cat sits.\t5.0\nOn the mat.\t4\n\n\nSkip.\t1\n\nA bird sings.\t4.5\n",
        AT + "test_med.txt": "Mat cat.\t3\n\nSkip.\t2\n\nSong bird.\t2.5\n",
        AT + "test_bad.txt": "The mat sits on song.\t1\n\nSkip.\t1\n\nA song birds.\t1.5\n",
    }
    small = {
        AT + "test_t5.txt": "A cat sits.\t0.9\nOn the mat.\t\nSkip.\t0.5\nA bird sings.\t0.8\n",
        AT + "test_med_t5.txt": "Mat cat.\t0.5\nSkip.\t0.5\nSong bird.\t0.4\n",
        AT + "test_bad_t5.txt": "Not there.\t0.1\nSkip.\t0.5\nA song birds.\t0.2\n",
    }
    return files(gpt_4=base, flan_t5={**base, **small})


def test_a_sentence_that_several_judges_scored_is_one_sample(trinity):
    samples = rated.commongen(trinity)
    first = samples[0]
    assert first.ratings == {"commonsense": {"gpt-4": 5.0, "flan-t5": 0.9}}
    assert first.control == {"keywords": ("cat", "sit", "mat")}
    assert first.extra == {"class": "good", "quality": 1.0, "concept_set": 1}
    assert [s.extra["quality"] for s in samples if s.text == "Skip."] == [1.0, 0.5, 0.0]
    assert len({s.id for s in samples}) == len(samples) == 11


def test_concepts_belong_to_the_groups_between_blank_lines(trinity):
    keywords = {s.text: s.control.get("keywords") for s in rated.commongen(trinity)}
    assert keywords["On the mat."] == ("cat", "sit", "mat")
    assert keywords["Skip."] == ()
    assert keywords["A song birds."] == keywords["A bird sings."] == ("bird", "sing")


def test_a_missing_score_is_not_a_rating(trinity):
    samples = {s.text: s for s in rated.commongen(trinity)}
    assert samples["On the mat."].ratings == {"commonsense": {"gpt-4": 4.0}}
    assert samples["The mat sits on song."].ratings == {"commonsense": {"gpt-4": 1.0}}
    assert samples["Not there."].ratings == {"commonsense": {"flan-t5": 0.1}}
    assert samples["Not there."].control == {}


def test_a_part_alone_has_its_judge_alone(trinity):
    samples = rated.commongen({"flan-t5": trinity["flan-t5"]})
    assert samples[0].ratings == {"commonsense": {"flan-t5": 0.9}}


def test_a_score_that_is_not_a_number_is_an_error_that_names_its_line(files):
    base = {AT + f"test{s}.txt": "A.\tmuch\n" for s in ("", "_med", "_bad")}
    parts = files(gpt_4={**base, AT + "keys.txt": "a\n"})
    with pytest.raises(InputError, match=r"commongen_test.txt:1: expected a number, found 'much'"):
        rated.commongen(parts)


def dialogue(*rows: str) -> str:
    return "".join(row.replace(" | ", "</UTT>") + "\n" for row in rows)


def test_a_dialogue_rated_for_two_aspects_is_one_sample(files):
    parts = files(
        fed={
            "data/fed/fed_test_coherence.txt": dialogue("Hi! | Bye. | 0.5", "One | Two | 1"),
            "data/fed/fed_test_overall.txt": dialogue("Hi! | Bye. | 0.25", "One | Three | 0"),
            "coh_models/fed_test_coherence_orig_preds.txt": dialogue("Hi! Bye. | 0.9", "O T | 0.8"),
        },
        dstc9={"data/dstc9/dstc9_test_overall_averaged.txt": dialogue("Well? | Well. | 3.5")},
        dstc9_same={"data/dstc9/dstc9_test_overall_same_averaged.txt": dialogue("A | B | 3")},
    )
    first, *others, averaged, same = rated.deam(parts)
    assert first.id == "fed:1"
    assert first.text == "Hi!\nBye."
    assert first.context == ()
    assert first.ratings == {"coherence": {"mean": 0.5}, "overall": {"mean": 0.25}}
    assert first.extra == {"turns": ["Hi!", "Bye."], "deam": {"coherence": 0.9}}
    assert [s.id for s in others] == ["fed:2:coherence", "fed:2:overall"]
    assert (averaged.dataset, averaged.ratings) == ("dstc9", {"overall": {"mean": 3.5}})
    assert (same.id, same.extra) == ("dstc9-same:1", {"turns": ["A", "B"]})


def test_dialogues_to_train_on_end_with_or_without_a_mark(files):
    parts = files(valid={"clean_valid.txt": dialogue("A | B | ", "C | D") + "\n"})
    assert [s.text for s in rated.dialogues(parts)] == ["A\nB", "C\nD"]


TEXTS = "4\tur late\tYou are late.\tYou are tardy."
RATINGS = "90\t80\t70\t60\t50\t40"
NORMED = "0.9\t0.8\t0.7\t0.6\t0.5\t0.4"


def test_what_several_files_say_of_an_output_is_put_together(files):
    values = "\t".join(str(n) for n in range(11))
    parts = files(
        ratings={"data/outputs/ABC.human.txt": f"{TEXTS}\t{RATINGS}\n"},
        content_src={
            "data/outputs/ABC.content.src.txt": f"{TEXTS}\t{RATINGS}\t{NORMED}\t{values}\n"
        },
        cls_xformal={"data/outputs/ABC.cls.xformal.txt": f"{TEXTS}\t{RATINGS}\t{NORMED}\t0.97\n"},
        chatgpt={"chatgpt/style.json": "{}"},
    )
    (sample,) = formality(parts)
    assert (sample.id, sample.system, sample.source) == ("ABC:1", "ABC", "ur late")
    assert (sample.text, sample.references) == ("You are late.", ("You are tardy.",))
    assert sample.ratings == {
        "content": {"1": 90.0, "2": 60.0},
        "style": {"1": 80.0, "2": 50.0},
        "fluency": {"1": 70.0, "2": 40.0},
    }
    assert sample.extra["survey"] == "4"
    assert sample.extra["z"]["fluency"] == {"1": 0.7, "2": 0.4}
    assert sample.extra["cls.xformal"] == 0.97
    assert sample.extra["content.src"] == dict(zip(CONTENT_METRICS, range(11), strict=True))
    assert sample.extra["content.src"]["WMD"] == 6


def test_one_kind_of_file_is_enough(files):
    parts = files(ppl={"data/outputs/ABC.ppl.txt": f"{TEXTS}\t{RATINGS}\t{NORMED}\t33.5\n"})
    (sample,) = formality(parts)
    assert sample.extra["ppl"] == 33.5
    assert sample.ratings["style"] == {"1": 80.0, "2": 50.0}


def test_files_that_do_not_belong_together_are_refused(files):
    other = TEXTS.replace("You are late.", "You are not.")
    parts = files(
        ratings={"data/outputs/ABC.human.txt": f"{TEXTS}\t{RATINGS}\n"},
        ppl={"data/outputs/ABC.ppl.txt": f"{other}\t{RATINGS}\t{NORMED}\t33.5\n"},
    )
    with pytest.raises(InputError, match=r"ABC.ppl.txt:1: source or output differ"):
        formality(parts)
    with pytest.raises(InputError, match="3 fields, expected 10 or more"):
        formality(files(ratings={"ABC.human.txt": "1\ta\tb\n"}))
