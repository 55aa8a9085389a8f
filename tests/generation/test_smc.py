"""SMC against enumeration of all texts of a tiny world, and against the base and its guide."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tables import BOS, WORDS, language_model, padded, table

import technique_cases as cases
from contract_cases import CASES
from levelfield.core.errors import UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.logits.readers import Texts
from levelfield.generation.sampling import Draw, Growth
from levelfield.generation.techniques._future.guidance import FutureGuide
from levelfield.generation.techniques._future.network import future_model
from levelfield.generation.techniques.smc.technique import (
    SMC,
    Particle,
    ParticleCloud,
    ParticleOptions,
    grow_clouds,
)
from levelfield.models.guides import guide_named
from levelfield.models.torch.decoding import CausalRows
from levelfield.models.torch.draws import Exponentials, stream

POSITIVE = {"sentiment": "positive"}
GUIDE = cases.future_guide(cases.model())
TOPIC = cases.future_guide(cases.model(), "topic")
ASKED = [
    Request(str(n), prompt, {"sentiment": label})
    for n, (prompt, label) in enumerate(
        itertools.product(("The lake", "", "Once upon a time there"), ("positive", "negative"))
    )
]


# -- a world in which all texts can be written down


LAST, LENGTH, PROMPT = 5, 3, 2
"""The token that ends a text, the most tokens of a text, and the token that stands before it."""
LOG_P = table(1)
WORTH = torch.tensor([0.0, 0.4, -0.3, 0.7, -0.2, 0.0], dtype=torch.float64)
"""Logit that each token adds to P(label | text)."""


def log_b(text: tuple[int, ...]) -> float:
    """log P(the wanted label | text), which grows and falls with the tokens, the prompt's too."""
    logit = sum(float(WORTH[token]) * (1 + place) for place, token in enumerate((PROMPT, *text)))
    return -math.log1p(math.exp(-logit))


class Worth:
    """`log_b` as an estimator; the label 0 is the other one."""

    passes = 0

    def start(self, texts):
        self._logit = torch.stack([WORTH[text].sum() for text in texts])  # of one token each
        self._places = [len(text) for text in texts]

    def log_p(self):
        return torch.nn.functional.logsigmoid(torch.stack([-self._logit, self._logit], dim=-1))

    def read(self, tokens):
        self._logit = self._logit + (torch.tensor(self._places) + 1) * WORTH[tokens]
        self._places = [place + 1 for place in self._places]

    def keep(self, rows):
        self._logit = self._logit[rows]
        self._places = [self._places[row] for row in rows.tolist()]


def every_text() -> dict[tuple[int, ...], float]:
    """Each text that may be written -> its probability; the last token is not part of it."""
    texts: dict[tuple[int, ...], float] = {}
    for length in range(LENGTH + 1):
        for text in itertools.product([t for t in range(WORDS) if t != LAST], repeat=length):
            ids = [PROMPT, *text, *([LAST] if length < LENGTH else [])]
            texts[text] = math.exp(sum(float(LOG_P[a, b]) for a, b in itertools.pairwise(ids)))
    return texts


TEXTS = every_text()


def value(text: tuple[int, ...]) -> float:
    """What the expectations below are of."""
    return len(text) + 2.0 * (3 in text)


def one(_: tuple[int, ...]) -> float:
    return 1.0


def twist(text: tuple[int, ...], strength: float) -> float:
    """(B(text) / B(prompt))^λ."""
    return math.exp(strength * (log_b(text) - log_b(())))


def grown(options: ParticleOptions, runs: int, seed: int = 0) -> list[ParticleCloud]:
    """So many independent runs, as requests of one batch."""
    rows = CausalRows.of(
        language_model(LOG_P, "p").model, [[BOS, PROMPT]] * runs, BOS, torch.device("cpu")
    )
    ids, mask = padded([[PROMPT]] * runs)
    guide = FutureGuide(Worth(), [1] * runs, BOS)
    guide.start(Texts(ids, mask))
    names = [f"{run} {k}" for run in range(runs) for k in range(options.particles)]
    growth = Growth(
        Draw(Exponentials(seed, names, WORDS)), [LENGTH] * len(names), frozenset({LAST})
    )
    clouds = [ParticleCloud(options, n, LENGTH, stream(seed, str(n), "smc")) for n in range(runs)]
    base = SteeringProcessor(None, [{}] * runs, decoding=Decoding(top_p=1.0))
    with torch.inference_mode():
        grow_clouds(rows, base, [guide], clouds, growth)
    return clouds


def test_the_world_is_one_of_probabilities_and_its_texts_end_in_both_ways():
    assert sum(TEXTS.values()) == pytest.approx(1)
    assert 0.1 < sum(p for text, p in TEXTS.items() if len(text) == LENGTH) < 0.9


@pytest.mark.thinned
@pytest.mark.parametrize(("threshold", "strength"), [(0.7, 2.0), (0.0, 2.0), (1.0, 2.0), (0.7, -1)])
def test_weighted_particles_estimate_sums_over_all_texts_without_bias(threshold, strength):
    """E[mean_k w_k f(x_k)] = Σ_x p(x) (B(x) / B(prompt))^λ f(x), even of three particles."""
    options = ParticleOptions(particles=3, strength=strength, threshold=threshold)
    clouds = grown(options, 1500)
    for f in (one, value):
        estimates = torch.tensor(
            [sum(math.exp(p.log_w) * f(p.ids) for p in cloud.particles) / 3 for cloud in clouds]
        )
        exact = sum(p * twist(text, strength) * f(text) for text, p in TEXTS.items())
        error = float(estimates.std()) / math.sqrt(len(clouds))
        assert error < 0.03 * exact
        assert float(estimates.mean()) == pytest.approx(exact, abs=4 * error)


def test_answers_follow_the_target_with_many_particles_and_the_base_with_one():
    of_base = sum(p * value(text) for text, p in TEXTS.items())
    target = {text: p * twist(text, 2.0) for text, p in TEXTS.items()}
    wanted = sum(p * value(text) for text, p in target.items()) / sum(target.values())
    for particles, expected in ((1, of_base), (24, wanted)):
        clouds = grown(ParticleOptions(particles=particles, strength=2.0), 500)
        values = torch.tensor([value(tuple(cloud.answer().ids)) for cloud in clouds])
        error = float(values.std()) / math.sqrt(len(values))
        assert float(values.mean()) == pytest.approx(expected, abs=4 * error)
        assert abs(of_base - wanted) > 6 * error


def test_without_resampling_the_weight_of_a_text_is_what_the_guide_says_of_it():
    particles = [
        p
        for cloud in grown(ParticleOptions(particles=4, strength=1.7, threshold=0.0), 50)
        for p in cloud.particles
    ]
    assert len({p.ids for p in particles}) > 20
    for p in particles:
        assert p.log_w == pytest.approx(math.log(twist(p.ids, 1.7)), abs=1e-12)
        assert p.steps == len(p.ids) + (len(p.ids) < LENGTH)


# -- resampling


weights = st.lists(st.floats(-30, 30), min_size=1, max_size=12)


def cloud_of(log_w: list[float], threshold: float = 1.0, seed: int = 0) -> ParticleCloud:
    options = ParticleOptions(particles=len(log_w), threshold=threshold)
    cloud = ParticleCloud(options, 0, LENGTH, torch.Generator().manual_seed(seed))
    cloud.particles = [Particle(n, (n,), 1, 0.0, w) for n, w in enumerate(log_w)]
    return cloud


@given(weights, st.integers(0, 99))
def test_a_particle_is_drawn_as_often_as_its_share_says_rounded_up_or_down(log_w, seed):
    drawn = [p.row for p in cloud_of(log_w, seed=seed).drawn(len(log_w))]
    for row, share in enumerate(torch.tensor(log_w).double().softmax(0).tolist()):
        n = share * len(log_w)
        assert math.floor(n - 1e-9) <= drawn.count(row) <= math.ceil(n + 1e-9)


@given(weights)
def test_drawing_anew_keeps_the_mean_weight_and_makes_all_equal(log_w):
    cloud = cloud_of(log_w)
    W = cloud.log_w.softmax(0)
    before = float(cloud.log_w.logsumexp(0))
    cloud.resample()
    assert float(cloud.log_w.logsumexp(0)) == pytest.approx(before, abs=1e-9)
    if 1 / float(W.square().sum()) < len(log_w) - 1e-6:
        assert len({p.log_w for p in cloud.particles}) == 1


@pytest.mark.parametrize(("threshold", "is_drawn"), [(0.0, False), (0.45, False), (0.55, True)])
def test_particles_are_drawn_anew_where_too_few_have_the_weight(threshold, is_drawn):
    cloud = cloud_of([0.0, 0.0, -50.0, -50.0], threshold)  # two of four
    cloud.resample()
    assert (sorted(p.ids for p in cloud.particles) == [(0,), (0,), (1,), (1,)]) == is_drawn


def test_a_text_that_has_ended_keeps_its_weight_and_may_be_drawn_again():
    cloud = cloud_of([3.0, 0.0])
    growth = Growth(Draw(None), [LENGTH] * 2, frozenset({LAST}))
    cloud.extend([LAST, 1], [7.0, -1.0], growth)
    ended, growing = cloud.particles
    assert (ended.row, ended.ids, ended.steps, ended.log_w) == (None, (0,), 2, 3.0)
    assert (growing.row, growing.ids) == (1, (1, 1))
    cloud.resample()
    assert [p.ids for p in cloud.particles] == [(0,), (0,)]
    assert cloud.rows == []


def test_nothing_is_drawn_for_a_request_whose_texts_have_ended():
    """So its answer does not depend on how long other requests of the batch go on."""
    cloud = cloud_of([9.0, 0.0])
    cloud.particles = ended = [replace(p, row=None) for p in cloud.particles]
    cloud.resample()
    assert cloud.particles == ended


# -- on models


def smc(**options) -> SMC:
    return SMC(**{"model": cases.model(), "guide": GUIDE, "particles": 6, "strength": 4, **options})


def clouds_of(technique: SMC, asked=ASKED, decoding=Decoding(max_new_tokens=6)):  # noqa: B008
    return technique._clouds([technique._prompted(r, 6) for r in asked], decoding, seed=5)


def of_guide(technique: SMC, prompt: str, ids, label: str, guide: str = GUIDE) -> float:
    """log B(label | prompt and tokens), read anew."""
    learnt = future_model(guide_named(guide), technique.model)
    row = torch.tensor([[learnt.bos_id, *technique.base.ids(prompt), *ids]])
    with torch.inference_mode():
        log_p = learnt.network.whole(row)[0, -1].double().log_softmax(-1)
    return float(log_p[learnt.guide.labels.index(label)])


@pytest.mark.parametrize("threshold", [0.5, 1.0])
def test_particles_that_were_drawn_anew_go_on_from_their_own_texts(threshold):
    """Base and guide, against rows that read everything anew; 1 draws them at every step."""
    technique = smc(threshold=threshold)
    decoding = Decoding(max_new_tokens=6, top_k=2, top_p=1.0)
    clouds = clouds_of(technique, decoding=decoding)
    for request, cloud in zip(ASKED, clouds, strict=True):
        for p in cloud.particles:
            expected = of_guide(technique, request.prompt, p.ids, request.control["sentiment"])
            assert p.log_b == pytest.approx(expected, abs=1e-4)
            for step, token in enumerate(p.ids):
                row = [*technique._prompted(request, 6).ids, *p.ids[:step]]
                with torch.inference_mode():
                    logits = technique.base.model(input_ids=torch.tensor([row])).logits[0, -1]
                assert token in logits.topk(2).indices
    without = clouds_of(smc(threshold=0.0), decoding=decoding)
    assert any(a.particles != b.particles for a, b in zip(clouds, without, strict=True))


def test_several_attributes_add_up():
    technique = smc(guide=f"{GUIDE},{TOPIC}", threshold=0.0)
    control = {"sentiment": "negative", "topic": "science"}
    (cloud,) = clouds_of(technique, [Request("1", "The lake", control)])
    for p in cloud.particles:
        of_both = of_guide(technique, "The lake", p.ids, "negative")
        of_both += of_guide(technique, "The lake", p.ids, "science", TOPIC)
        of_prompt = of_guide(technique, "The lake", [], "negative")
        of_prompt += of_guide(technique, "The lake", [], "science", TOPIC)
        assert p.log_w == pytest.approx(4 * (of_both - of_prompt), abs=1e-3)


def written(technique, asked=ASKED, decoding=Decoding(max_new_tokens=6)):  # noqa: B008
    return [(a.text, a.tokens) for a in technique.generate(asked, decoding=decoding, seed=3)]


def test_one_particle_is_the_base():
    base = CASES["base"].make()
    assert written(smc(particles=1)) == written(base)
    assert written(smc()) != written(base)


def test_without_a_control_the_base_writes_and_pays_for_one_text():
    asked = [replace(request, control={}) for request in ASKED]
    (answer, *_) = smc().generate(asked, decoding=Decoding(max_new_tokens=6), seed=3)
    assert answer.forward_passes == answer.tokens
    assert written(smc(), asked) == written(CASES["base"].make(), asked)


def test_every_row_through_base_and_guide_counts():
    decoding = Decoding(max_new_tokens=3, top_k=1)
    for answer in smc().generate(ASKED[:1], decoding=decoding):
        assert answer.tokens == 3
        assert answer.forward_passes == 1 + 2 * 6 + 1 + 3 * 6


def test_the_text_of_highest_weight_wins_where_the_strength_is_large():
    technique = smc(strength=1e6, threshold=0.0)
    cloud, *_ = clouds_of(technique, ASKED[:1])
    best = max(cloud.particles, key=lambda p: p.log_b)
    assert tuple(cloud.answer().ids) == best.ids


def test_no_token_has_a_probability():
    with pytest.raises(UserError, match="smc draws one of several texts"):
        smc().log_probs(ASKED[:1], [" was"])
    with pytest.raises(UserError, match="smc has no logits processor"):
        smc().processor([POSITIVE])


@pytest.mark.parametrize(
    ("control", "why"),
    [
        ({"keywords": ("lake",)}, "smc: controls labels of texts, not keywords"),
        ({"sentiment": "blue"}, 'smc: sentiment "blue" is not a label of guide'),
        ({"mood": "good"}, 'smc: no guide for "mood"'),
    ],
)
def test_what_no_guide_knows_is_refused(control, why):
    assert smc().refusal(control).startswith(why)
