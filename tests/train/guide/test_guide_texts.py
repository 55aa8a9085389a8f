"""A guide's texts come from sets and files, and read as people write."""

from __future__ import annotations

import json

import pytest

from levelfield.core.errors import UserError
from levelfield.train.guide.texts import as_written, guide_texts


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
