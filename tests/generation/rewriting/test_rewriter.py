"""The rewriter: what it writes, against the model itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import tiny_rewriter
from levelfield.core.errors import UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.rewriter.network import (
    beam_search,
    seq2seq,
    token_log_p,
    write,
)
from levelfield.generation.techniques.rewriter.technique import Rewriter

FAMILIES = ("t5", "bart", "pegasus")
TEXTS = ("The lake is old.", "It was", "A wall, and then nothing at all!", "I", "Once upon a time")
GREEDY = Decoding(max_new_tokens=8, greedy=True)


@pytest.fixture(params=FAMILIES)
def folder(request, tmp_path_factory) -> str:
    return str(tiny_rewriter.save(tmp_path_factory.mktemp("rewriter") / "r", request.param))


def requests(texts=TEXTS) -> list[Request]:
    return [
        Request(f"{n}:{label}", control={"formality": label}, source=text)
        for n, text in enumerate(texts)
        for label in tiny_rewriter.LABELS
    ]


def texts(technique, asked, **options) -> dict[str, str]:
    return {one.id: one.text for one in technique.generate(asked, **options)}


@pytest.mark.thinned
def test_the_greedy_text_is_that_of_the_model_read_anew_at_every_step(folder):
    technique = Rewriter(model=folder)
    base = technique.base
    for answer in technique.generate(requests(), decoding=GREEDY):
        code = f"{answer.control['formality']}: {answer.source}"
        source = torch.tensor([base.tokenizer(code)["input_ids"]])
        ids = [base.start]
        for _ in range(GREEDY.max_new_tokens):
            with torch.inference_mode():
                logits = base.model(input_ids=source, decoder_input_ids=torch.tensor([ids])).logits
            ids.append(int(logits[0, -1].argmax()))
            if ids[-1] == base.end:
                break
        assert answer.tokens == len(ids) - 1 == answer.forward_passes
        assert answer.text == base.text([id for id in ids[1:] if id != base.end])


@pytest.mark.thinned
@pytest.mark.parametrize("decoding", [GREEDY, Decoding(max_new_tokens=8, top_p=0.8)])
def test_a_batch_of_any_size_writes_the_same(folder, decoding):
    expected = texts(Rewriter(model=folder, batch=1), requests(), decoding=decoding, seed=3)
    for batch in (3, 16):
        written = texts(Rewriter(model=folder, batch=batch), requests(), decoding=decoding, seed=3)
        assert written == expected


def test_log_probs_are_those_of_the_model(folder):
    technique = Rewriter(model=folder)
    asked, written = requests(TEXTS[:2]), ["It was old.", "the", "", "A lake"]
    for request, text, log_p in zip(
        asked, written, technique.log_probs(asked, written), strict=True
    ):
        base = technique.base
        source, _ = base.source(f"{request.control['formality']}: {request.source}")
        expected, _ = token_log_p(base, [source], [base.target(text)])
        n = len(base.tokens.before)
        assert len(log_p) == len(base.target(text)) - n - 1
        np.testing.assert_allclose(log_p, expected[0, n:-1].detach().numpy(), atol=1e-5)


@pytest.mark.thinned
def test_one_beam_is_the_greedy_text(folder):
    model = seq2seq(folder)
    for text in TEXTS:
        source, _ = model.source(text)
        greedy = write(model, [source], [10])[0]
        one = beam_search(model, source, 1, 10)
        assert (one.ids, one.steps, one.passes) == (greedy.ids, greedy.steps, greedy.passes)


@pytest.mark.thinned
def test_as_many_beams_as_there_are_texts_find_the_best_one(folder):
    """Against all texts of three tokens or fewer over a vocabulary cut to seven tokens."""
    model = seq2seq(folder)
    few = sorted({model.end, 5, 6, 7, 8, 9, 10})
    source, _ = model.source("The lake")
    cut = _only(model, few)
    best = {}
    for n in (1, 2, 3):
        for ids in itertools.product([id for id in few if id != model.end], repeat=n - 1):
            best[ids] = _mean_log_p(cut, source, [*ids, model.end])
        if n == 3:
            for ids in itertools.product([id for id in few if id != model.end], repeat=3):
                best[ids] = _mean_log_p(cut, source, [*ids])
    found = beam_search(cut, source, 400, 3)
    assert tuple(found.ids) == max(best, key=best.__getitem__)


def _only(model, few):
    from dataclasses import replace

    class Cut:
        """The model with no other token than these."""

        config = model.model.config
        get_encoder = model.model.get_encoder

        def parameters(self):
            return model.model.parameters()

        def __call__(self, **inputs):
            output = model.model(**inputs)
            mask = torch.full_like(output.logits, -1e9)
            mask[..., few] = 0
            output.logits = output.logits + mask
            return output

    return replace(model, model=Cut())


def _mean_log_p(model, source, ids):
    with torch.inference_mode():
        return float(token_log_p(model, [source], [ids])[0].sum()) / len(ids)


@pytest.mark.thinned
def test_beams_draw_nothing(folder):
    with pytest.raises(UserError, match="beams is 2, and a beam search draws nothing"):
        list(Rewriter(model=folder, beams=2).generate(requests()))
    one = texts(Rewriter(model=folder, beams=3), requests(), decoding=GREEDY, seed=1)
    assert one == texts(Rewriter(model=folder, beams=3, batch=2), requests(), decoding=GREEDY)


def test_what_the_model_was_not_taught_is_refused():
    folder = "no/such-rewriter"
    technique = Rewriter(model=folder)
    assert "no model folder" in technique.refusal({"formality": "formal"}) or (
        "not on this machine" in technique.refusal({"formality": "formal"})
    )
    assert "one attribute with one value" in technique.refusal({"keywords": ("a", "b")})
    assert "give a rewriter, model=FOLDER" in Rewriter().refusal({"formality": "formal"})
    is_none = Rewriter(model="offline/infill-expert")
    assert "is not a rewriter: it has no rewriter.json" in is_none.refusal({"formality": "formal"})


def test_labels_of_the_model_are_named_where_another_is_asked_for(folder):
    technique = Rewriter(model=folder)
    assert "there are formal, informal" in technique.refusal({"formality": "posh"})
    assert "the model knows formality" in technique.refusal({"sentiment": "positive"})
    assert technique.refusal({"formality": "Formal"}) == ""


def test_a_source_that_is_too_long_is_cut_and_said_to_be(folder):
    long = Request("1", control={"formality": "formal"}, source="word " * 2_000)
    (answer,) = Rewriter(model=folder).generate([long], decoding=GREEDY)
    assert answer.extra == {"source_cut": True}
