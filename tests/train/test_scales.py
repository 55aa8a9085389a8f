"""Scales of composite scores: reference text and what is measured on it."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from composite_stubs import put_stubs
from levelfield.cli import main
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics.aspects import load_aspect
from levelfield.metrics.composite import CompositeAttributeRelevance, CompositeCoherence
from levelfield.metrics.composite.scales import read_scales
from levelfield.train.scales import (
    PROMPT_WORDS,
    SENTENCES,
    WORDS,
    Reference,
    measure_scales,
    reference_text,
    write_scales,
)

NOUNS = ("river", "mayor", "kettle", "orchard", "engine", "letter", "winter", "violin")


def corpus(path: Path, *, documents: int = 40, seed: int = 0) -> str:
    """Documents of two paragraphs; every sentence names its document and its place."""
    rng = np.random.default_rng(seed)
    blocks = []
    for d in range(documents):
        paragraphs = []
        for p in range(2):
            sentences = []
            for s in range(4):
                words = [NOUNS[i] for i in rng.integers(len(NOUNS), size=6)]
                sentences.append(f"The {' and the '.join(words)} of {d} {p} {s} were there.")
            paragraphs.append(" ".join(sentences))
        blocks.append("\n".join(paragraphs))
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [corpus(tmp_path / "a.txt"), corpus(tmp_path / "b.txt", seed=1)]


def reference(files: list[str], passages: int = 32, seed: int = 0) -> Reference:
    return reference_text(files, passages=passages, seed=seed)


def written(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def test_passages_are_consecutive_sentences_of_the_corpus_within_bounds(files):
    text = written(files[0]) + written(files[1])
    for sample in reference(files).intact:
        assert sample.text in text
        assert SENTENCES[0] <= sample.text.count("were there.") <= SENTENCES[1]
        assert WORDS[0] <= len(sample.text.split()) <= WORDS[1]


def test_prompts_begin_their_texts_and_are_a_sentence_or_a_few_words(files):
    kinds = set()
    for sample in reference(files).texts:
        assert sample.text.startswith(f"{sample.prompt} ")
        is_sentence = sample.prompt.endswith(".")
        kinds.add(is_sentence)
        if not is_sentence:
            assert PROMPT_WORDS[0] <= len(sample.prompt.split()) <= PROMPT_WORDS[1]
    assert kinds == {True, False}


def test_half_of_the_passages_are_degraded_and_every_file_gives_as_many(files):
    drawn = reference(files)
    for half in (drawn.intact, drawn.degraded):
        assert [sample.id[0] for sample in half] == ["0"] * 8 + ["1"] * 8
    text = written(files[0]) + written(files[1])
    assert not any(sample.text in text for sample in drawn.degraded)


def test_degraded_passages_are_spoilt_in_several_ways(files):
    kept, foreign, scrambled = 0, 0, 0
    for sample in reference(files).degraded:
        spoilt = sample.text[len(sample.prompt) :]
        places = [w for w in spoilt.split("were there.") if w.strip()]
        documents = {place.split(" of ")[-1].split()[0] for place in places if " of " in place}
        if " were there." not in spoilt or any("the the" in place for place in places):
            scrambled += 1
        elif len(documents) > 1:
            foreign += 1
        else:
            kept += 1
    assert kept
    assert foreign
    assert scrambled


def test_the_draw_depends_on_the_seed_alone(files):
    assert reference(files).texts == reference(files).texts
    assert reference(files).digest == reference(files).digest
    assert reference(files, seed=1).texts != reference(files).texts


def test_a_corpus_with_too_few_passages_is_an_error(tmp_path):
    file = corpus(tmp_path / "a.txt", documents=2)
    with pytest.raises(UserError, match=r"a\.txt: only \d passages .* expected 16"):
        reference([file], passages=16)


@pytest.mark.parametrize("passages", [3, 6])
def test_passages_that_can_t_be_shared_equally_are_an_error(passages, files):
    with pytest.raises(UserError, match="expected a multiple of 4"):
        reference(files, passages=passages)


def test_a_scale_is_the_mean_and_the_standard_deviation_of_the_component(files, monkeypatch):
    put_stubs(monkeypatch)
    metric, drawn = CompositeCoherence(), reference(files)
    measured = measure_scales([metric], drawn)
    for component, scale in zip(metric.components(), measured, strict=True):
        values = [component.metric.score([sample]).values[0] for sample in drawn.texts]
        assert scale.key == component.keys[""]
        assert scale.n == len(drawn.texts)
        assert scale.scale.mean == float(f"{np.mean(values):.4g}")
        assert scale.scale.sd == float(f"{np.std(values, ddof=1):.4g}")


def test_attribute_relevance_is_measured_with_every_label_of_every_second_intact_text(
    files, monkeypatch
):
    put_stubs(monkeypatch)
    drawn = reference(files)
    measured = measure_scales([CompositeAttributeRelevance()], drawn)
    n = {scale.part: scale.n for scale in measured}
    assert n["attribute-relevance: judge of sentiment"] == len(drawn.intact)
    labels = len(load_aspect("topic").labels)
    assert n["attribute-relevance: after of topic"] == labels * len(drawn.intact) // 2


def test_channel_has_a_scale_for_each_wanted_label(files, monkeypatch):
    put_stubs(monkeypatch)
    metric, drawn = CompositeAttributeRelevance(channel=True), reference(files)
    measured = {scale.part: scale for scale in measure_scales([metric], drawn)}
    component = next(c for c in metric.components() if c.ingredient.part == "channel")
    for label in component.labels:
        control = {component.attribute: label}
        texts = [replace(sample, control=control) for sample in drawn.intact[::2]]
        scale = measured[f"attribute-relevance: channel of {component.attribute} {label}"]
        values = component.metric.score(texts).values
        assert (scale.key, scale.n) == (component.keys[label], len(texts))
        assert scale.scale.mean == float(f"{values.mean():.4g}")


def test_undefined_values_are_left_out_and_counted(files, monkeypatch):
    put_stubs(monkeypatch)
    drawn = reference(files)
    more = Reference((*drawn.intact, Sample("e", " ")), drawn.degraded, drawn.sources)
    assert [s.n for s in measure_scales([CompositeCoherence()], more)] == [len(drawn.texts)] * 3


def test_a_component_without_spread_is_an_error(monkeypatch):
    put_stubs(monkeypatch)
    same = Reference((Sample("1", "a"), Sample("2", "a")), (), ())
    with pytest.raises(UserError, match="coherence: embedding: 2 values without any spread"):
        measure_scales([CompositeCoherence()], same)


def test_the_command_writes_the_same_bytes_again_and_metrics_read_them(
    files, tmp_path, monkeypatch, capsys
):
    put_stubs(monkeypatch)
    outs = [tmp_path / "one.toml", tmp_path / "two.toml"]
    for out in outs:
        words = ["train", "scales", *files, "--out", str(out), "--passages", "16"]
        monkeypatch.setattr(sys, "argv", ["levelfield", *words, "--model", "other/lm"])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0, capsys.readouterr().err
    assert outs[0].read_bytes() == outs[1].read_bytes()
    document = tomllib.loads(outs[0].read_text())
    assert document["sources"] == ["a.txt", "b.txt"]
    assert (document["intact"], document["degraded"], document["seed"]) == (8, 8, 0)
    assert set(read_scales(str(outs[0]))) >= {row["component"] for row in document["scales"]}
    metric = CompositeCoherence(model="other/lm", scales=str(outs[0]))
    assert np.isfinite(metric.score([Sample("1", "A text.")]).values).all()


def test_standard_scores_of_the_reference_text_have_mean_0_and_deviation_1(
    files, tmp_path, monkeypatch
):
    put_stubs(monkeypatch)
    drawn = reference(files)
    file = tmp_path / "scales.toml"
    file.write_text(write_scales(measure_scales([CompositeCoherence()], drawn), drawn, 0))
    parts = CompositeCoherence(scales=str(file)).score(drawn.texts).parts
    assert parts is not None
    for (_,), rows in parts.group_by("part"):
        assert rows["score"].mean() == pytest.approx(0, abs=1e-3)
        assert rows["score"].std() == pytest.approx(1, abs=1e-3)
