"""Degenerate outputs, and perplexity under a model of the wanted style."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from levelfield.core.errors import UserError
from levelfield.core.partitions import partitions
from levelfield.core.sample import Sample
from levelfield.core.scores import concatenate
from levelfield.metrics.fluency import Perplexity
from levelfield.metrics.style import StyleDegenerate, StylePerplexity, degenerate
from levelfield.models.loading import Loading
from levelfield.models.torch import causal as torch_causal


@pytest.mark.parametrize(
    ("text", "source", "kind"),
    [
        ("", "I shall go.", "empty"),
        (" \n\t", "I shall go.", "empty"),
        ("I  shall\ngo. ", "I shall go.", "copy of the source"),
        ("cafe\u0301 noir", "café noir", "copy of the source"),
        ("Yes", "I shall go.", "one word"),
        ("i shall go", "I shall go.", None),
        ("Indeed.", "Yes!", None),
        ("👍", "👍👍", None),
        ("我要走了。", "我 要 走。", "one word"),
    ],
)
def test_kinds_of_texts_that_are_not_rewrites(text, source, kind):
    assert degenerate(text, source) == kind


def test_the_share_of_degenerate_outputs_counts_empty_ones_and_leaves_out_what_has_no_source():
    texts = ["", "I shall go.", "I'm off now.", "Off"]
    samples = [Sample(str(i), text, source="I shall go.") for i, text in enumerate(texts)]
    scores = StyleDegenerate().score([*samples, Sample("x", "So.", source=" ")])
    assert scores.values.tolist()[:4] == [1, 1, 0, 1]
    assert scores.undefined == {"x": "empty source"}
    assert scores.parts is not None
    assert scores.parts["part"].to_list() == ["empty", "copy of the source", "one word"]
    assert scores.direction == "lower"


def test_each_text_is_scored_by_the_model_of_its_style(causal_folders):
    first, second = list(causal_folders.values())[:2]
    metric = StylePerplexity(
        models=f"formal={first}, Informal={second}", loading=Loading(device="cpu")
    )
    text = "I shall be there by noon."
    samples = [
        Sample("f", text, control={"formality": "formal"}),
        Sample("i", text, control={"formality": "informal"}),
        Sample("n", text, control={"formality": "poetic"}),
        Sample("e", "", control={"formality": "formal"}),
    ]
    scores = pickle.loads(pickle.dumps(metric)).score(samples)
    alone = [
        Perplexity(model=str(m), loading=Loading(device="cpu")).score([Sample("1", text)])
        for m in (first, second)
    ]
    assert scores.values[:2] == pytest.approx([float(s.values[0]) for s in alone])
    assert scores.undefined == {"n": "no wanted style", "e": "empty text"}
    assert np.isnan(scores.values[2:]).all()
    assert "model-formal:" in scores.signature
    assert "model-informal:" in scores.signature


def test_styles_that_take_turns_load_each_model_once_and_keep_their_places(
    causal_folders, put_model
):
    folders = [str(folder) for folder in list(causal_folders.values())[:3]]
    assert len(folders) == 3
    words = ["Noon", "Rain again", "The last tram left early"]
    samples = [
        Sample(str(i), words[i // 3 % 3], control={"style": "abc"[i % 3]}) for i in range(150)
    ]
    loaded: list[str] = []

    def load_causal(name, loading):
        loaded.append(name)
        return torch_causal.load_causal(name, loading)

    put_model("causal", load_causal)
    models = ",".join(f"{style}={folder}" for style, folder in zip("abc", folders, strict=True))
    metric = StylePerplexity(models=models, loading=Loading(device="cpu"))
    scores = concatenate([metric.score(part) for part in partitions(samples)])  # as a run does
    assert len(loaded) == 3
    assert len(pickle.dumps(metric)) < 10_000  # no model goes with it
    for k, folder in enumerate(folders):
        alone = Perplexity(model=folder, loading=Loading(device="cpu")).score(
            [Sample("1", w) for w in words]
        )
        expected = [alone.values[i // 3 % 3] for i in range(k, 150, 3)]
        np.testing.assert_allclose(scores.values[k::3], expected, rtol=1e-5)


@pytest.mark.parametrize("models", ["formal", "formal=", "formal=a,Formal=b", ""])
def test_models_that_are_not_written_as_pairs_are_refused(models):
    with pytest.raises(UserError, match="LABEL=MODEL"):
        _ = StylePerplexity(models=models).signature
