"""The authors' GeDi: what comes of its files computes what they compute."""

from __future__ import annotations

import pytest
import torch
from plain import logits, steered

import published_files
import technique_cases as cases
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques._class_lm.network import class_lm
from levelfield.generation.techniques.ctrl_lite.technique import CTRLLite
from levelfield.generation.techniques.dexperts.technique import DExperts
from levelfield.generation.techniques.gedi.technique import GeDi
from levelfield.models.guides import guide_named
from levelfield_reproductions.convert import convert

SCALE, BIAS = 7.0, (0.3, -0.2)
EXTRA = {"logit_scale": torch.tensor([[SCALE]]), "bias": torch.tensor([BIAS])}
WORDS = {"topics": "World=h,Sports=t,Sci/Tech=u"}
"""Of one token to the tiny models, as the authors' are to GPT-2."""
LAKE = "The lake was very"


@pytest.fixture(autouse=True)
def short_codes(monkeypatch):
    """Codes of one token to the tiny models."""
    from levelfield_reproductions.convert import gedi

    letters = {"sentiment": ("a", "e"), "topic": ("o", "i"), "detoxifier": ("n", "s")}
    codes = {variant: (names[0], *letters[variant]) for variant, names in gedi._CODES.items()}
    monkeypatch.setattr(gedi, "_CODES", codes)


@pytest.fixture
def original(tmp_path):
    """The authors' folder, and the model in it."""
    return tmp_path / "gedi", published_files.gpt2(tmp_path / "gedi", extra=EXTRA)


def log_p(model, ids):
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)


def score(model, code, scored, bias):
    """(α / T) Σ log P + b of the texts `scored` and each next token: (vocabulary,)."""
    of_each = log_p(model, [code, *scored])
    before = sum(of_each[place, token] for place, token in enumerate(scored))
    return SCALE * (before + of_each[-1]) / (len(scored) + 1) + bias


def test_codes_stand_first_and_the_posterior_is_that_of_alpha_and_b(original, tmp_path):
    folder, model = original
    convert("gedi", folder, tmp_path / "guide", allow_pickle=True)
    technique = GeDi(model=cases.model(), guide=str(tmp_path / "guide"), strength=3.0)
    text, (negative, positive) = technique.base.ids(LAKE), technique.base.ids("ae")
    scores = torch.stack(
        [score(model, negative, text, BIAS[0]), score(model, positive, text, BIAS[1])]
    )
    expected = logits(technique, LAKE).log_softmax(-1) + 3.0 * scores.log_softmax(0)[1]
    actual = steered(technique, LAKE, {"sentiment": "e"})
    assert torch.allclose(actual, expected.log_softmax(-1), atol=1e-4)


def test_a_topic_is_against_its_own_falsehood_and_counts_as_a_token(original, tmp_path):
    folder, model = original
    options = {"variant": "topic", **WORDS}
    convert("gedi", folder, tmp_path / "guide", options=options, allow_pickle=True)
    technique = GeDi(model=cases.model(), guide=str(tmp_path / "guide"), strength=3.0)
    ids = technique.base.ids
    text, word, (false, true) = ids(LAKE), ids("t"), ids("oi")
    scores = torch.stack(
        [score(model, false, [*word, *text], BIAS[0]), score(model, true, [*word, *text], BIAS[1])]
    )
    expected = logits(technique, LAKE).log_softmax(-1) + 3.0 * scores.log_softmax(0)[1]
    actual = steered(technique, LAKE, {"topic": "Sports"})
    assert torch.allclose(actual, expected.log_softmax(-1), atol=1e-4)
    assert technique.refusal({"topic": "Business"})


def test_rows_of_several_topics_have_codes_of_their_own(original, tmp_path):
    folder, _ = original
    options = {"variant": "topic", **WORDS}
    convert("gedi", folder, tmp_path / "guide", options=options, allow_pickle=True)
    make = lambda batch: GeDi(  # noqa: E731
        model=cases.model(), guide=str(tmp_path / "guide"), strength=5.0, batch=batch
    )
    asked = [
        Request(f"{n}{topic}", prompt, {"topic": topic})
        for n, prompt in enumerate((LAKE, "", "Go"))
        for topic in ("World", "Sports", "Sci/Tech")
    ]
    decoding = Decoding(max_new_tokens=6)
    one, many = ([a.text for a in make(n).generate(asked, decoding=decoding)] for n in (1, 9))
    assert one == many
    assert len(set(many[:3])) > 1


def test_its_code_alone_makes_the_class_model(original, tmp_path):
    folder, model = original
    convert("gedi", folder, tmp_path / "guide", allow_pickle=True)
    technique = CTRLLite(model=cases.model(), guide=str(tmp_path / "guide"))
    (code,) = technique.base.ids("e")
    of_lake = log_p(model, [code, *technique.base.ids("The lake")])[-1]
    first = next(
        iter(
            technique.generate(
                [Request("1", "The lake", {"sentiment": "e"})],
                decoding=Decoding(max_new_tokens=1, greedy=True),
            )
        )
    )
    assert first.continuation == technique.base.continuation(
        technique.base.ids("The lake"), [int(of_lake.argmax())]
    )


def test_dexperts_takes_both_codes(original, tmp_path):
    folder, model = original
    convert("gedi", folder, tmp_path / "guide", allow_pickle=True)
    technique = DExperts(model=cases.model(), guide=str(tmp_path / "guide"), strength=2.0)
    text, (negative, positive) = technique.base.ids(LAKE), technique.base.ids("ae")
    difference = log_p(model, [positive, *text])[-1] - log_p(model, [negative, *text])[-1]
    expected = logits(technique, LAKE).log_softmax(-1) + 2.0 * difference
    actual = steered(technique, LAKE, {"sentiment": "e"})
    assert torch.allclose(actual, expected.log_softmax(-1), atol=1e-4)


def test_a_base_of_another_vocabulary_is_refused(original, tmp_path):
    convert("gedi", original[0], tmp_path / "guide", allow_pickle=True)
    guide = guide_named(str(tmp_path / "guide"))
    with pytest.raises(ModelError, match="a different vocabulary"):
        class_lm(guide, cases.model("llama"))


def test_weights_that_were_changed_afterwards_are_refused(original, tmp_path):
    convert("gedi", original[0], tmp_path / "guide", allow_pickle=True)
    about = tmp_path / "guide" / "model" / "config.json"
    about.write_text(about.read_text().replace('"n_layer": 2', '"n_layer": 1'))
    with pytest.raises(ModelError, match="not those that it was made with"):
        class_lm(guide_named(str(tmp_path / "guide")), cases.model())


def test_codes_and_topics_are_one_token(original, tmp_path):
    options = {"variant": "topic", "topics": "World=h,Sports=hesitation"}
    with pytest.raises(ModelError, match="'hesitation' is more than one token"):
        convert("gedi", original[0], tmp_path / "guide", options=options, allow_pickle=True)
    assert not (tmp_path / "guide").exists()
    options["topics"] = "World"
    with pytest.raises(UserError, match="topics is 'World'"):
        convert("gedi", original[0], tmp_path / "guide", options=options, allow_pickle=True)


def test_without_alpha_and_b_they_are_1_and_0(tmp_path):
    published_files.gpt2(tmp_path / "plain")
    convert("gedi", tmp_path / "plain", tmp_path / "guide", allow_pickle=True)
    learnt = class_lm(guide_named(str(tmp_path / "guide")), cases.model())
    assert (learnt.scale, learnt.bias) == (1.0, {"a": 0.0, "e": 0.0})
