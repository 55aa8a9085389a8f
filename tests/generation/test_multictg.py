"""MultiCTG: whose latents meet, which prefix stands before a prompt, and what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import technique_cases as cases
import tiny_latent
from contract_cases import CASES
from levelfield.core.errors import UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques._latent import latents
from levelfield.generation.techniques._latent.latents import latent_model
from levelfield.generation.techniques.multictg.technique import MultiCTG
from levelfield.generation.techniques.priorctg.technique import PriorCTG
from levelfield.models.guides import guide_named
from levelfield.models.torch.caches import with_cache
from levelfield.models.torch.draws import stream

GREEDY = Decoding(max_new_tokens=6, greedy=True, top_p=1.0)
BOTH = {"sentiment": "negative", "topic": "Sports"}
PROMPTS = ("The lake", "", "Once upon a time there was a very old road", "I")
every = pytest.mark.parametrize("technique", [MultiCTG, PriorCTG])


def made(technique=MultiCTG, family: str = "gpt2", **options):
    base = cases.model(family)
    return technique(
        **{"model": base, "guide": cases.latent_guide(base), "extension": 0.0, **options}
    )


def latent_of(technique, control=BOTH, id: str = "1", seed: int = 0) -> torch.Tensor:
    return technique._latent(control, stream(seed, id, technique.name))


def plain_logits(technique, request: Request, tokens: list[int], seed: int = 0) -> torch.Tensor:
    """Of the next token, without rows or padding: prefix, BOS, prompt and tokens, read at once."""
    learnt = technique._learnt(request.control)
    e = latent_of(technique, request.control, request.id, seed)
    prefix = learnt.decoder(e[None].float()).detach()[0]
    base = technique.base
    ids = [base.bos_id, *base.ids(request.prompt), *tokens]
    from transformers import DynamicCache

    cache = DynamicCache(ddp_cache_data=[(layer[0][None], layer[1][None]) for layer in prefix])
    P = prefix.shape[-2]
    with torch.inference_mode():
        return learnt.writer.model(
            input_ids=torch.tensor([ids]),
            **with_cache(cache),
            attention_mask=torch.ones(1, P + len(ids), dtype=torch.long),
            position_ids=torch.arange(P, P + len(ids))[None],
        ).logits[0, -1]


@every
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_each_request_gets_the_continuation_of_its_own_prompt_behind_its_own_prefix(
    technique, family
):
    """Token by token, against a loop over single rows."""
    one = made(technique, family)
    requests = [Request(str(n), prompt, BOTH) for n, prompt in enumerate(PROMPTS)]
    for request, answer in zip(
        requests, one.generate(requests, decoding=GREEDY, seed=3), strict=True
    ):
        tokens: list[int] = []
        for _ in range(answer.tokens):
            tokens.append(int(plain_logits(one, request, tokens, seed=3).argmax()))
        start = [one.base.bos_id, *one.base.ids(request.prompt)]
        assert answer.continuation == one.base.continuation(start, tokens)
        assert answer.prompt == request.prompt


@every
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_probabilities_are_given_the_latent_of_the_request(technique, family):
    one = made(technique, family, batch=3)
    requests = [Request(str(n), prompt, BOTH) for n, prompt in enumerate(PROMPTS)]
    written = [" was green", " it", " and then nobody came", " was"]
    for request, text, log_p in zip(
        requests, written, one.log_probs(requests, written, seed=2), strict=True
    ):
        tokens = one.base.ids(text)
        for step, token in enumerate(tokens):
            logits = plain_logits(one, request, tokens[:step], seed=2).double()
            assert log_p[step] == pytest.approx(float(logits.log_softmax(-1)[token]), abs=1e-5)


@every
def test_without_a_control_it_is_the_base(technique):
    requests = [Request(str(n), prompt) for n, prompt in enumerate(PROMPTS)]
    base = CASES["base"].make()
    texts = [one.text for one in made(technique).generate(requests, decoding=GREEDY)]
    assert texts == [one.text for one in base.generate(requests, decoding=GREEDY)]


@every
def test_a_token_costs_one_pass(technique):
    requests = [Request(str(n), prompt, BOTH) for n, prompt in enumerate(PROMPTS)]
    for answer in made(technique).generate(requests, decoding=Decoding(max_new_tokens=7)):
        assert answer.forward_passes == answer.tokens
        assert answer.backward_passes == 0


@every
def test_a_prefix_takes_its_positions_from_the_prompt(technique):
    """Of a base with 512 positions, P are the prefix's."""
    one = made(technique)
    room = one.base.tokens.limit - tiny_latent.POSITIONS
    long = Request("1", "word " * 5_000 + "The lake", BOTH)
    assert len(one._prompted(long, 6).ids) == room - 6
    (answer,) = one.generate([long], decoding=GREEDY)
    assert answer.extra["prompt_cut"]


# -- the search


def test_the_centre_is_the_mean_of_the_wanted_labels_where_all_latents_are_near():
    one = made(neighbours=1000, noise=0.0)
    learnt = latent_model(guide_named(one.guide), one.model)
    means = [
        learnt.latents[label].double().mean(0)
        for label in (("sentiment", "negative"), ("topic", "Sports"))
    ]
    torch.testing.assert_close(latent_of(one), sum(means) / 2, atol=1e-6, rtol=0)
    alone = latent_of(one, {"topic": "Sports"})
    torch.testing.assert_close(alone, means[1], atol=1e-6, rtol=0)


def test_only_weights_of_attributes_that_are_asked_for_count():
    """Three weights and two attributes: the published program divided by the sum of three."""
    one = made(neighbours=1000, noise=0.0, weights="sentiment=2, topic=7, toxicity=1")
    learnt = latent_model(guide_named(one.guide), one.model)
    sentiment = learnt.latents["sentiment", "negative"].double().mean(0)
    topic = learnt.latents["topic", "Sports"].double().mean(0)
    expected = (2 * sentiment + 7 * topic) / 9
    torch.testing.assert_close(latent_of(one), expected, atol=1e-6, rtol=0)
    alone = latent_of(one, {"sentiment": "negative"})
    torch.testing.assert_close(alone, sentiment, atol=1e-6, rtol=0)


def test_a_request_takes_one_of_the_best_centres_by_seed_and_id():
    one = made(neighbours=4, centres=6, noise=0.0)
    wanted = one._wanted(BOTH)
    best = latents.centres(guide_named(one.guide), wanted, 4, 6, one.model, one.loading)
    taken = torch.stack([latent_of(one, id=str(n)) for n in range(60)])
    assert ((taken[:, None] == best).all(-1).sum(1) >= 1).all()
    assert len(taken.unique(dim=0)) == len(best.unique(dim=0)) > 1
    torch.testing.assert_close(latent_of(one, id="7", seed=1), latent_of(one, id="7", seed=1))
    others = torch.stack([latent_of(one, id=str(n), seed=1) for n in range(60)])
    assert not torch.equal(taken, others)


def test_noise_has_the_deviation_that_is_asked_for():
    still, noisy = made(neighbours=1000, noise=0.0), made(neighbours=1000, noise=0.01)
    moved = torch.stack([latent_of(noisy, id=str(n)) for n in range(500)]) - latent_of(still)
    assert moved.std().item() == pytest.approx(0.01, rel=0.1)
    assert moved.mean().abs() < 0.001


def test_a_combination_is_searched_once(monkeypatch: pytest.MonkeyPatch):
    searches = []

    def search(clouds, *_):
        searches.append(len(clouds))
        return torch.zeros(1, tiny_latent.SIZE, dtype=torch.float64)

    latents.centres.cache_clear()
    monkeypatch.setattr(latents, "intersection_centres", search)
    requests = [Request(str(n), "I", BOTH) for n in range(5)]
    requests += [Request(f"other {n}", "I", {"topic": "World"}) for n in range(5)]
    for seed in (0, 1):
        list(made(batch=2).generate(requests, decoding=GREEDY, seed=seed))
    latents.centres.cache_clear()
    assert sorted(searches) == [1, 2]


# -- guides


@every
def test_a_guide_of_lower_layers_is_written_by_these(technique, tmp_path: Path):
    """As the published checkpoint is of 16 of GPT-2 medium's 24 layers."""
    base = cases.model()
    guide = str(tiny_latent.save(base, tmp_path / "lower", layers=1))
    one = technique(model=base, guide=guide)
    requests = [Request(str(n), prompt, BOTH) for n, prompt in enumerate(PROMPTS)]
    assert one._writer(BOTH).model.config.n_layer == 1
    for request, answer in zip(requests, one.generate(requests, decoding=GREEDY), strict=True):
        first = int(plain_logits(one, request, []).argmax())
        start = [one.base.bos_id, *one.base.ids(request.prompt)]
        assert answer.text.startswith(
            request.prompt
            + one.base.continuation(start, [first]).rstrip("\N{REPLACEMENT CHARACTER}")
        )
    assert one.base.model.config.n_layer == 2


@every
def test_attributes_of_two_guides_are_refused_together(technique, tmp_path: Path):
    base = cases.model()
    for name, labels in tiny_latent.ATTRIBUTES.items():
        tiny_latent.save(base, tmp_path / name, attributes={name: labels})
    one = technique(model=base, guide=f"{tmp_path / 'sentiment'},{tmp_path / 'topic'}")
    assert one.refusal({"sentiment": "positive"}) == one.refusal({"topic": "Sports"}) == ""
    assert one.refusal(BOTH) == (
        f"{one.name}: sentiment (guide sentiment) and topic (guide topic) have latents of their "
        "own; train one guide for both with --attribute sentiment,topic"
    )


@every
@pytest.mark.parametrize(
    ("control", "why"),
    [
        (
            {"sentiment": "mixed"},
            'sentiment "mixed" is not a label of guide both; there are negative',
        ),
        ({"topic": "positive"}, 'topic "positive" is not a label of guide both; there are World'),
        ({"keywords": ("a", "b")}, "not keywords; bolt, cbart, "),
    ],
)
def test_what_no_label_serves_is_refused(technique, control, why):
    assert why in made(technique).refusal(control)


@every
@pytest.mark.parametrize(
    "weights", ["sentiment", "sentiment=0", "sentiment=-1", "sentiment=nan", "sentiment=x"]
)
def test_weights_that_weigh_nothing_are_refused(technique, weights):
    with pytest.raises(UserError, match=r"weights=.*numbers above 0; sentiment"):
        made(technique, weights=weights)


def test_an_extension_moves_the_point_away_from_the_means_of_other_labels():
    """By the attributes' shares of the weights; not given, so far that clouds are 7 standard
    deviations apart, at most three times their distance."""
    one = made(noise=0.0, weights="sentiment=3,topic=1")
    latents = one._learnt(BOTH).latents
    mean = {label: cloud.double().mean(0) for label, cloud in latents.items()}
    of_sentiment = mean["sentiment", "negative"] - mean["sentiment", "positive"]
    others = (mean["topic", "World"] + mean["topic", "Sci/Tech"]) / 2
    of_topic = mean["topic", "Sports"] - others
    further = latent_of(made(noise=0.0, weights="sentiment=3,topic=1", extension=0.5))
    expected = latent_of(one) + 0.5 * (0.75 * of_sentiment + 0.25 * of_topic)
    torch.testing.assert_close(further, expected)

    def scaled(attribute: str, away: torch.Tensor) -> float:
        clouds = [cloud.double() for (name, _), cloud in latents.items() if name == attribute]
        variance = torch.stack([((c - c.mean(0)) ** 2).mean(0) for c in clouds]).mean(0)
        return min(3.0, max(0.0, 7.0 / float((away**2 / variance).sum()) ** 0.5 - 1))

    x, y = scaled("sentiment", of_sentiment), scaled("topic", of_topic)
    scaled_latent = latent_of(made(noise=0.0, weights="sentiment=3,topic=1", extension=None))
    torch.testing.assert_close(
        scaled_latent, latent_of(one) + 0.75 * x * of_sentiment + 0.25 * y * of_topic
    )
