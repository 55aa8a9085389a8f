"""The infillers that come with the package: whole, small, of one vocabulary, and of use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import levelfield
from levelfield.core.errors import ModelError
from levelfield.core.sample import Sample
from levelfield.metrics.cdm import CDMMomentum
from levelfield.models import resolve as resolving
from levelfield.models.contracts import Gapped, Target
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.resolve import EMBEDDED, files_of, resolve

FOLDER = Path(levelfield.__file__).parent / "models" / "offline"
PAIR = ("offline/infill-amateur", "offline/infill-expert")


def test_there_are_two_and_they_are_small():
    assert set(PAIR) < set(EMBEDDED)
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 80e6
    for name in PAIR:
        card = (resolve(name).path / "README.md").read_text(encoding="utf-8")
        for fact in ("Trained on | CPU", "nats per token on held-out", "CC BY-SA", "public domain"):
            assert fact in card


def test_weights_that_are_not_those_are_refused(monkeypatch):
    monkeypatch.setattr(resolving, "EMBEDDED", dict.fromkeys(PAIR, "0" * 64))
    with pytest.raises(ModelError, match="not the pinned file"):
        files_of.__wrapped__(PAIR[0])


def test_the_expert_knows_better_what_people_write():
    text = "It was the best day of the year. The sun was in the sky, and there was no wind."
    left, right = text.split(" The ")
    models = [load("infilling", name) for name in PAIR]
    ids = [model.token_ids([text]) for model in models]
    assert ids[0] == ids[1]
    totals = [
        model.log_likelihood([Gapped(left + " ", "")], [[Target("The " + right, True)]]).log_p[0][0]
        for model in models
    ]
    assert totals[1].mean() > totals[0].mean() > -np.log(8192)


def test_words_in_order_are_likelier_than_the_same_words_in_disorder():
    model = load("infilling", PAIR[1])
    good = "He went to the house and sat in the chair."
    bad = "House to the he chair sat and the went in."
    likelihoods = model.log_likelihood([Gapped("", "")], [[Target(good, True), Target(bad, True)]])
    first, second = likelihoods.log_p[0]
    assert first.mean() > second.mean()


def test_momentum_needs_no_network():
    sample = Sample(id="a", text="It was late. The house was dark, and nobody came.")
    scores = CDMMomentum(*PAIR, loading=Loading(device="cpu")).score([sample])
    assert np.isfinite(scores.values).all()
    assert "offline/infill-expert@" in scores.signature
