"""A run says which texts are in languages that its metrics do not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from levelfield.core.scores import Scores
from levelfield.models.languages import ENGLISH, model_languages
from levelfield.scoring import languages
from levelfield.scoring.languages import languages_read
from levelfield.scoring.run import score
from levelfield.text.languages import language
from levelfield.text.segmenter import sentences

GERMAN = "Der Zug kam eine Stunde zu spät, und niemand entschuldigte sich dafür."
SPANISH = "El tren llegó con una hora de retraso y nadie pidió disculpas."
CHINESE = "火车晚点了一个小时。没有人道歉！我们走路回家。"
RUSSIAN = "Поезд опоздал на час, и никто не извинился перед пассажирами."
ENGLISH_TEXT = "The train was an hour late, and nobody apologised for it."


@dataclass(frozen=True)
class Reader:
    """A metric that reads English by a model and a lexicon."""

    model: str = "offline/minilm"
    languages: ClassVar = {"lexicon": ENGLISH}
    name: ClassVar = "reader.length"
    level: ClassVar = "sample"
    direction: ClassVar = "none"
    requires: ClassVar = frozenset({"text"})
    signature: ClassVar = "reader.length|v:1"

    def score(self, samples, *, progress=None):  # noqa: ARG002
        return Scores(
            metric=self.name,
            ids=tuple(sample.id for sample in samples),
            values=np.array([float(len(sample.text)) for sample in samples]),
            undefined={},
            signature=self.signature,
            direction="none",
        )


@pytest.mark.parametrize(
    ("text", "code"),
    [(GERMAN, "de"), (SPANISH, "es"), (CHINESE, "zh"), (RUSSIAN, "ru"), (ENGLISH_TEXT, "en")],
)
def test_the_language_of_a_sentence_is_told(text, code):
    assert language(text) == code


@pytest.mark.parametrize(
    "text", ["", "Ja!", "Der See.", "42 17 3 99", "冷。", "def f(x): return x"]
)
def test_what_is_short_or_uncertain_has_no_language(text):
    assert language(text) is None


def test_texts_that_the_metric_does_not_read_are_counted_by_language_and_keep_their_values():
    result = score([GERMAN, GERMAN, CHINESE, ENGLISH_TEXT, "Ja!"], Reader(), cache=False)
    (note,) = result.notes
    assert note.startswith(
        "3 of 5 texts do not look like English, which reader.length reads "
        "(offline/minilm, lexicon): German 2, Chinese 1"
    )
    assert "--model" in note
    assert result.to_dict()["languages"] == {"de": 2, "zh": 1}
    assert np.isfinite(result.scores["reader.length"].values).all()


def test_nothing_is_said_of_texts_in_a_language_that_the_metric_reads():
    result = score([ENGLISH_TEXT, "Ja!"], Reader(), cache=False)
    assert result.notes == ()
    assert "languages" not in result.to_dict()


def test_of_many_texts_some_from_all_over_are_looked_at(monkeypatch):
    monkeypatch.setattr(languages, "MOST_TEXTS", 4)
    result = score([ENGLISH_TEXT] * 4 + [GERMAN] * 4, Reader(), cache=False)
    assert result.notes[0].startswith("2 of 4 texts that were looked at do not look like English")


def test_metrics_of_words_do_not_ask_for_languages(monkeypatch):
    monkeypatch.setattr(languages.detector, "language", lambda _: pytest.fail("asked"))
    assert score([GERMAN], "diversity.distinct-1", cache=False).notes == ()


def test_a_run_without_the_detector_says_so_and_scores(monkeypatch):
    monkeypatch.setattr(languages, "detects", lambda: False)
    (note,) = score([GERMAN], Reader(), cache=False).notes
    assert note.endswith("is not checked: py3langid is not installed")


def test_the_composite_names_all_that_reads_its_texts():
    from levelfield.metrics.composite import CompositeAttributeRelevance, CompositeCoherence

    coherence = languages_read(CompositeCoherence())
    models = {"offline/minilm", "offline/smollm2"}
    assert coherence.keys() == {*models, "scales=shipped", "language=english"}
    assert languages_read(CompositeAttributeRelevance()).keys() >= {*models, "vader"}
    german = languages_read(CompositeCoherence(language="german", scales="my.toml"))
    assert german["language=german"] == {"de"}
    assert "scales=shipped" not in german
    assert "language=auto" not in languages_read(CompositeCoherence(language="auto"))


@pytest.mark.parametrize(
    ("header", "codes"),
    [
        ("language: en", {"en"}),
        ("language:\n- en\n- de\nlicense: mit", {"en", "de"}),
        ("language: [fr, it]", {"fr", "it"}),
        ("license: mit", None),
        ("language: multilingual", None),
    ],
)
def test_a_card_says_which_languages_its_model_reads(tmp_path, header, codes):
    (tmp_path / "README.md").write_text(f"---\n{header}\n---\n# A model\n", encoding="utf-8")
    assert model_languages(str(tmp_path)) == (codes and frozenset(codes))


def test_the_segmenter_follows_each_text_if_asked():
    assert len(sentences(CHINESE, "auto")) == 3
    assert sentences("यह घर बहुत पुराना है। वह कल आया।", "auto")[1] == "वह कल आया।"
    assert sentences("Dr. Lee left. We stayed!", "auto") == ("Dr. Lee left.", "We stayed!")
    assert sentences(CHINESE) == sentences(CHINESE, "english")
