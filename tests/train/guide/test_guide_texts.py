"""A guide's texts come from sets and files, and read as people write."""

from __future__ import annotations

import json

import numpy as np
import pytest

from levelfield.core.errors import UserError
from levelfield.train.guide.kinds import GuideSpec, doubtful_attributes
from levelfield.train.guide.texts import as_written, guide_texts
from levelfield.train.labelled import Labelled


@pytest.mark.parametrize(
    ("tokenised", "written"),
    [
        ("it 's dull , and i 'm not amused .", "It's dull, and I'm not amused."),
        ("what a scam ( i tried ) !", "What a scam (I tried)!"),
        ("jagger , stoppard . . . deliver", "Jagger, stoppard... deliver"),
        ('the " lord of the rings " trilogy', 'The "lord of the rings" trilogy'),
        ("a film . it ca n't end . why ?", "A film. It can't end. Why?"),
        ("i'd go ; i did .", "I'd go; I did."),
        ("mr . deeds is in it", "Mr. Deeds is in it"),
        ("", ""),
    ],
)
def test_tokenised_sentences_become_written_ones(tokenised: str, written: str):
    assert as_written(tokenised) == written
    assert as_written(written) == written


def test_a_file_gives_texts_and_labels_as_they_stand(tmp_path):
    file = tmp_path / "mine.jsonl"
    rows = [{"id": str(i), "text": f"text {i} .", "tone": "ab"[i % 2]} for i in range(40)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = guide_texts([str(file)], "tone", share=0.1, mapping={"control.tone": "tone"})
    assert (len(texts.train), len(texts.test)) == (36, 4)
    assert texts.train.labels == ("a", "b")
    assert "text 0 ." in (*texts.train.texts, *texts.test.texts)


def test_a_file_without_labels_is_refused(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"id": "1", "text": "text"}) + "\n")
    with pytest.raises(UserError, match=r"sample '1' has no label; expected one in control\.tone"):
        guide_texts([str(file)], "tone")


def held_out(labels: str, names=("negative", "positive"), attributes=()) -> Labelled:
    """Texts of these labels, each named by a digit; a dot is a text without any."""
    targets = np.array([[float(str(i) == c) for i in range(len(names))] for c in labels])
    return Labelled(tuple(map(str, range(len(labels)))), targets, names, attributes=attributes)


@pytest.mark.parametrize(
    ("labels", "accuracy", "doubted"),
    [
        ("01" * 50, 0.51, True),
        ("01" * 50, 0.58, True),
        ("01" * 50, 0.59, False),  # P(X >= 59) = 0.044 of 100 coins
        ("01" * 50, 0.3, True),
        ("0001" * 25, 0.75, True),  # the label that most have
        ("0001" * 25, 0.85, False),
        ("01", 1.0, True),  # two texts tell nothing
    ],
)
def test_a_guide_that_is_right_no_more_often_than_a_guess_is_doubted(labels, accuracy, doubted):
    spec = GuideSpec(kind="vector", attribute="sentiment")
    doubts = dict(doubtful_attributes({"accuracy": accuracy}, held_out(labels), spec))
    assert bool(doubts) is doubted
    if doubted:
        assert doubts["sentiment"].startswith(
            f"it is right on {accuracy:.0%} of {len(labels)} held"
        )


def test_each_attribute_of_several_is_compared_with_its_own_labels():
    spec = GuideSpec(kind="latent", attribute="mood,topic")
    names, attributes = ("good", "bad", "sport", "law"), ("mood", "mood", "topic", "topic")
    test = held_out("01" * 30 + "23" * 40, names, attributes)
    doubts = dict(doubtful_attributes({"accuracy-mood": 0.5, "accuracy-topic": 0.7}, test, spec))
    assert doubts.keys() == {"mood"}
    assert "of 60 held-out texts" in doubts["mood"]
    assert not dict(doubtful_attributes({"perplexity": 3.0}, test, spec))
