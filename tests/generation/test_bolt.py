"""BOLT against plain loops: every text read anew, one row, no cache, one-hot vectors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.open_rows import ReadPrompts, frozen
from levelfield.generation.techniques._energies.energies import keyword_energy, label_energy
from levelfield.generation.techniques.bolt.discriminators import (
    ClassReader,
    FutureReader,
    HeadReader,
)
from levelfield.generation.techniques.bolt.rollout import roll_out, unwanted
from levelfield.generation.techniques.bolt.search import Biases, BiasOptions
from levelfield.generation.techniques.bolt.technique import BOLT
from levelfield.metrics.keywords import KeywordsCoverage
from levelfield.models.loading import Loading
from levelfield.models.torch.draws import penalised

POSITIVE = {"sentiment": "positive"}
PROMPTS = ("The lake", "Once upon a time there was a very old road", "", "I saw")
SHORT = Decoding(max_new_tokens=6)
families = pytest.mark.parametrize("family", ["gpt2", "llama", "bloom"])
GUIDES = {
    "future": cases.future_guide,
    "class-lm": cases.class_guide,
    "head": cases.head_guide,
}
kinds = pytest.mark.parametrize("kind", GUIDES)


def bolt(family: str = "gpt2", kind: str = "future", **options) -> BOLT:
    base = cases.model(family)
    guide = GUIDES[kind](base)
    return BOLT(**{"model": base, "guide": guide, "iterations": 3, **options})


def asked(control=POSITIVE, prompts=PROMPTS) -> list[Request]:
    return [Request(str(n), prompt, control) for n, prompt in enumerate(prompts)]


def prompt_ids(technique: BOLT, requests: list[Request]) -> list[list[int]]:
    return [technique._prompted(request, 6).ids for request in requests]


def outcomes(technique: BOLT, requests: list[Request], decoding=SHORT, seed=0):
    prompted = technique._ready(requests, decoding)
    with frozen(technique.base.model):
        return technique._search(prompted, decoding, seed).run()


@pytest.mark.thinned
@families
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_without_biases_the_text_is_the_greedy_one(family, penalty):
    options = {"initial": 0.0, "iterations": 1, "repetition_penalty": penalty}
    technique = BOLT(model=cases.model(family), **options)
    base, banned = technique.base, set(unwanted(technique.base).tolist())
    for answer in technique.generate(asked({}), decoding=SHORT):
        ids = [base.bos_id, *base.ids(answer.prompt)]
        written = []
        for _ in range(6):
            row = torch.tensor([[*ids, *written]])
            with torch.inference_mode():
                logits = base.model(input_ids=row).logits[:, -1]
            scores = penalised(logits, row, torch.ones_like(row), penalty)[0]
            written.append(max(set(range(len(scores))) - banned, key=lambda id: float(scores[id])))
        assert answer.continuation == base.continuation(ids, written)


def test_the_penalty_of_the_decoding_goes_before_its_own():
    plain = outcomes(bolt(repetition_penalty=1.0), asked())
    own = outcomes(bolt(repetition_penalty=5.0), asked())
    given = outcomes(bolt(repetition_penalty=1.0), asked(), replace(SHORT, repetition_penalty=5.0))
    assert [o.energies for o in own] == [o.energies for o in given]
    assert [o.energies for o in own] != [o.energies for o in plain]


@pytest.mark.thinned
@kinds
def test_gradients_are_those_of_finite_differences_at_fixed_tokens(kind):
    """The energy of a text whose tokens stay while each one-hot vector moves with its softmax."""
    technique = bolt(kind=kind)
    base, tokens, prompt = technique.base, 4, [0, 7, 9, 3]
    model = base.model
    weight = model.get_output_embeddings().weight.detach()
    generator = torch.Generator().manual_seed(0)
    b = 0.3 * torch.randn(1, tokens, weight.shape[1], generator=generator)
    wanted, noise = torch.tensor([[3, 8]]), torch.randn(1, tokens, 2, generator=generator)
    banned = unwanted(base)
    # other models than those that are kept for all tests
    model.double()
    learnt = technique._reads("sentiment")
    try:
        if kind == "future":
            learnt.network.double()
            learnt.network.embeddings = learnt.network.embeddings.double()
        elif kind == "class-lm":
            adapter = learnt.lm.model._adapter.double()
        else:
            learnt = replace(learnt, weight=learnt.weight.double(), bias=learnt.bias.double())
        b = b.double().requires_grad_()
        weight, noise = weight.double(), noise.double()
        table = model.get_input_embeddings().weight.detach()
        readers = {"future": FutureReader, "head": HeadReader}
        with frozen(model):
            prompts = ReadPrompts(model, [prompt], base.bos_id, base.device)
            reader = ClassReader(learnt, [prompt]) if kind == "class-lm" else readers[kind](learnt)
            rollout = roll_out(
                base, prompts, b, penalty=1.2, banned=banned, with_states=kind == "head"
            )
            energy = label_energy(reader.logits(rollout).double(), torch.tensor([1]))
            energy = energy - 0.1 * rollout.log_likelihood.mean(-1)
            energy = energy + 0.3 * keyword_energy(rollout.log_p(wanted), noise)
            (gradient,) = torch.autograd.grad(energy.sum(), b)
        y = rollout.tokens[0]

        def scores_of(b, p):
            """Plain scores of every position, given what moves in each one-hot vector."""
            scores, logits, vectors, hot = [], [], [], []
            for t in range(tokens):
                before = torch.cat([table[prompt], *vectors])[None]
                z = model(inputs_embeds=before).logits[0, -1]
                ids = torch.tensor([[*prompt, *y[:t].tolist()]])
                anchor = z.detach() if p is None else p[1][t]
                gap = penalised(anchor[None], ids, torch.ones_like(ids), 1.2)[0] - anchor
                s = (z + gap + weight @ b[0, t]).index_fill(-1, banned, -torch.inf)
                moved = torch.zeros_like(s) if p is None else s.softmax(-1) - p[0][t]
                o = torch.nn.functional.one_hot(y[t], len(s)) + moved
                scores.append(s), logits.append(z), hot.append(o)
                vectors.append((o @ table)[None])
            return scores, logits, hot, torch.cat(vectors)

        def plain(b):
            scores, logits, hot, vectors = scores_of(b, anchors)
            fluency = -sum(o @ z.log_softmax(-1) for o, z in zip(hot, logits, strict=True)) / len(
                hot
            )
            log_p = torch.stack([s.log_softmax(-1)[wanted[0]] for s in scores])[None]
            text = torch.cat([table[prompt], vectors])[None]
            if kind == "future":
                places = torch.arange(text.shape[1])[None]
                mask = torch.ones(1, text.shape[1], text.shape[1], dtype=torch.bool).tril()
                labels = learnt.network.read_vectors(text, places, mask)[0][:, -1]
            elif kind == "head":
                states = model.base_model(inputs_embeds=text)[0][:, 1:]
                labels = states.mean(1) @ learnt.weight + learnt.bias
            else:
                rows = []
                start = [torch.nn.functional.one_hot(torch.tensor(i), len(hot[0])) for i in prompt]
                ones = [o.double() for o in [*start[1:], *hot]]
                for label in learnt.labels:
                    code = table[[prompt[0], *learnt.codes[label]]]
                    read = torch.cat([code, text[0, 1:]])[None]
                    log_q = learnt.lm.model(inputs_embeds=read).logits[0].log_softmax(-1)
                    log_q = log_q[len(code) - 1 : -1]
                    total = sum(o @ q for o, q in zip(ones, log_q, strict=True))
                    rows.append(learnt.scale * total / len(ones) + learnt.bias[label])
                labels = torch.stack(rows)[None]
            return (
                label_energy(labels, torch.tensor([1]))
                + 0.1 * fluency
                + 0.3 * keyword_energy(log_p, noise)
            )

        with torch.no_grad():
            scores, logits, _, _ = scores_of(b.detach(), None)
            anchors = ([s.softmax(-1) for s in scores], logits)
            assert float(plain(b.detach())) == pytest.approx(float(energy), abs=1e-6)
            assert gradient.abs().max() > 1e-3
            for at in [(0, t, i) for t in range(tokens) for i in (0, 5, 11)]:
                change = torch.zeros_like(b)
                change[at] = 1e-5
                slope = (plain(b + change) - plain(b - change)) / 2e-5
                assert float(gradient[at]) == pytest.approx(float(slope), rel=1e-4, abs=1e-8)
    finally:
        model.float()
        if kind == "future":
            learnt.network.float()
            learnt.network.embeddings = learnt.network.embeddings.float()
        elif kind == "class-lm":
            adapter.float()


def plain_energy(technique: BOLT, request: Request, ids: list[int]) -> float:
    """Of a complete text that stands there in tokens."""
    base, learnt = technique.base, technique._reads("sentiment")
    prompt = technique._prompted(request, len(ids)).ids
    text = torch.tensor([[*prompt, *ids]])
    with torch.inference_mode():
        log_p = base.model(input_ids=text).logits[0].log_softmax(-1)
        labels = learnt.network.whole(text)[0, -1].log_softmax(-1)
    nats = [-float(log_p[len(prompt) - 1 + t, id]) for t, id in enumerate(ids)]
    place = learnt.guide.labels.index(request.control["sentiment"])
    return float(-labels[place]) + technique.fluency * sum(nats) / len(nats)


def test_the_text_has_the_least_energy_of_all_iterations_and_it_is_the_text_s_own():
    technique = bolt(iterations=6, learning_rate=0.3)
    requests = [
        *asked(),
        *(replace(r, id=f"-{r.id}", control={"sentiment": "negative"}) for r in asked()),
    ]
    later = 0
    for request, outcome in zip(requests, outcomes(technique, requests), strict=True):
        assert len(outcome.energies) == 6
        assert outcome.best.energy == min(outcome.energies)
        later += outcome.energies[0] > outcome.best.energy
        expected = plain_energy(technique, request, outcome.best.ids)
        assert outcome.best.energy == pytest.approx(expected, abs=1e-4)
    assert later > len(requests) / 2
    (answer,) = technique.generate(requests[:1], decoding=SHORT)
    assert answer.extra["energy"] == pytest.approx(
        min(outcomes(technique, requests[:1])[0].energies)
    )


def test_iterations_lower_the_energy():
    requests = asked(prompts=PROMPTS * 3)
    first, last = (
        sum(
            outcome.best.energy
            for outcome in outcomes(bolt(iterations=n, learning_rate=0.3), requests)
        )
        for n in (1, 12)
    )
    assert last < first - 0.1 * len(requests)


def test_a_bias_that_speaks_for_one_token_alone_writes_that_token():
    technique = BOLT(model=cases.model("llama"))
    model, k, axis = technique.base.model, 37, 5
    head = model.get_output_embeddings()
    before = head.weight.detach().clone()
    try:
        with torch.no_grad():
            head.weight[:, axis] = 0
            head.weight[k, axis] = 1  # so that lm_head · big e_axis = big onehot(k)
        prompts = ReadPrompts(model, [[1, 7, 9]], 1, technique.base.device)
        biases = torch.zeros(1, 4, head.weight.shape[1])
        free = roll_out(technique.base, prompts, biases).tokens[0].tolist()
        biases[0, 2, axis] = 1e4
        tokens = roll_out(technique.base, prompts, biases).tokens[0].tolist()
        assert k not in free
        assert tokens[:3] == [*free[:2], k]
        biases[0, :, axis] = 1e4
        assert roll_out(technique.base, prompts, biases).tokens[0].tolist() == [k] * 4
    finally:
        with torch.no_grad():
            head.weight.copy_(before)


@kinds
def test_only_biases_get_gradients(kind):
    technique = bolt(kind=kind)
    model = technique.base.model
    learnt = technique._reads("sentiment")
    others = list(learnt.network.parameters()) if kind == "future" else []
    needed = [weight.requires_grad for weight in model.parameters()]
    assert any(needed)
    list(technique.generate(asked(), decoding=SHORT))
    assert [weight.requires_grad for weight in model.parameters()] == needed
    assert all(weight.grad is None for weight in [*model.parameters(), *others])
    with frozen(model):
        search = technique._search(technique._ready(asked(), SHORT), SHORT, 0)
        search.run()
    for biases in search._biases:
        assert biases.b.grad.abs().max() > 0
        assert biases.w.grad.abs().max() > 0
    assert all(weight.grad is None for weight in [*model.parameters(), *others])


@kinds
def test_passes_are_the_rows_that_models_read(kind):
    """n (T − 1) rows of the base and n readings by the guide, and one row for the prompt; gradients
    go back through all but the last iteration."""
    n, tokens = 4, 6
    each, once = {"future": (1, 0), "class-lm": (2, 2), "head": (1, 0)}[kind]
    technique = bolt(kind=kind, iterations=n)
    rows = []
    handles = [
        module.register_forward_pre_hook(
            lambda _m, args, options: rows.append(_size(args, options)), with_kwargs=True
        )
        for module in [technique.base.model]
    ]
    (answer,) = technique.generate(asked()[:1], decoding=SHORT)
    for handle in handles:
        handle.remove()
    of_network = n if kind == "future" else 0  # which is not called as a module
    # a class-conditional model reads a prompt in two steps: to score it, and to go on
    steps = once if kind == "class-lm" else 0
    assert answer.forward_passes == 1 + once + n * (tokens - 1 + each)
    assert sum(rows) - steps + of_network == answer.forward_passes
    assert answer.backward_passes == (n - 1) * (tokens - 1 + each)


def _size(args, options) -> int:
    read = options.get("input_ids", options.get("inputs_embeds"))
    return len(read if read is not None else args[0])


def test_texts_have_their_length_and_no_line_break():
    technique = bolt(initial=3.0)
    banned = set(unwanted(technique.base).tolist())
    assert technique.base.ends <= banned
    assert set(technique.base.ids("\n")) <= banned
    requests = asked(prompts=PROMPTS * 4)
    for outcome in outcomes(technique, requests):
        assert len(outcome.best.ids) == 6
        assert not banned & set(outcome.best.ids)


def test_memory_bounds_the_rows_and_changes_no_text(monkeypatch):
    sizes = []
    search = BOLT._search
    monkeypatch.setattr(
        BOLT,
        "_search",
        lambda self, some, *rest: sizes.append(len(some)) or search(self, some, *rest),
    )
    requests = asked(prompts=PROMPTS * 3)
    wide = [one.text for one in bolt().generate(requests, decoding=SHORT)]
    assert sizes == [1, 12]
    sizes.clear()
    row = search(bolt(), bolt()._ready(requests[1:2], SHORT), SHORT, 0).saved()
    # whole MiB are asked for, and a row of a tiny model takes less
    monkeypatch.setattr("levelfield.generation.techniques.bolt.technique.MIB", 2 * row + row // 2)
    narrow = [one.text for one in bolt(memory=1).generate(requests, decoding=SHORT)]
    assert sizes == [1, *[2] * 6]
    assert narrow == wide


def test_what_a_graph_keeps_grows_with_rows_and_tokens():
    technique = bolt()

    def saved(rows: int, tokens: int) -> int:
        decoding = Decoding(max_new_tokens=tokens)
        ready = technique._ready(asked(prompts=["The lake"] * rows), decoding)
        with frozen(technique.base.model):
            return technique._search(ready, decoding, 0).saved()

    # rotations and masks are shared by rows, so that a row alone takes more than its share
    assert 2.5 * saved(1, 6) < saved(4, 6) <= 4 * saved(1, 6)
    assert 1.5 * saved(1, 6) < saved(1, 12)


def held(words, text: str) -> float:
    metric = KeywordsCoverage()
    return float(metric.score([Sample("1", text, control={"keywords": words})]).values[0])


@pytest.mark.slow
def test_a_text_with_its_keywords_is_done_and_others_keep_what_has_most():
    words = ("lake", "road")
    technique = bolt(iterations=40, learning_rate=0.4)
    requests = asked({"keywords": words}, PROMPTS * 3)
    requests = [replace(r, id=str(n)) for n, r in enumerate(requests)]
    answers = list(technique.generate(requests, decoding=Decoding(max_new_tokens=12)))
    early = [one for one in answers if one.extra["iterations"] < 40]
    assert early
    assert all(held(words, one.continuation) == 1 for one in early)
    greedy = BOLT(model=cases.model(), initial=0.0, iterations=1)
    base = greedy.generate(
        [replace(r, control={}) for r in requests], decoding=Decoding(max_new_tokens=12)
    )
    assert sum(held(words, one.continuation) for one in answers) > sum(
        held(words, one.continuation) for one in base
    )
    some = replace(technique, until="any").generate(requests, decoding=Decoding(max_new_tokens=12))
    for any_, all_ in zip(some, answers, strict=True):
        assert any_.extra["iterations"] <= all_.extra["iterations"]


def test_keywords_and_a_label_are_wanted_of_the_same_text():
    control = {"keywords": ("road",), "sentiment": "positive"}
    technique = bolt(iterations=40, learning_rate=0.4)
    for outcome in outcomes(technique, asked(control)):
        if len(outcome.energies) < 40:
            assert outcome.best.coverage == 1
            assert outcome.best.is_labelled


def test_gradients_add_up_unless_they_are_zeroed():
    def biases(gradients):
        how = BiasOptions(learning_rate=0.1, noise=0.0, gradients=gradients)
        return Biases(3, 4, how, False, torch.Generator().manual_seed(0), torch.device("cpu"))

    for gradients, expected in (("accumulate", 3.0), ("zero", 2.0)):
        one = biases(gradients)
        one.b.sum().backward()
        one.step()
        (2 * one.b).sum().backward()
        assert torch.equal(one.b.grad, torch.full((3, 4), expected))


def test_the_ramp_is_fixed_and_ends_at_1():
    how = BiasOptions(learning_rate=0.1, noise=0.0, gradients="zero")
    one = Biases(4, 2, how, True, torch.Generator().manual_seed(0), torch.device("cpu"))
    assert one.w.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert not one.w.requires_grad


def test_what_it_can_not_do_is_said_in_one_line():
    technique = bolt()
    assert "no word" in technique.refusal({"keywords": (" ",)})
    with pytest.raises(UserError, match="bolt defines no distribution"):
        technique.log_probs(asked(), ["a"] * len(PROMPTS))
    with pytest.raises(UserError, match="bolt has no logits processor"):
        technique.processor([POSITIVE])
    soft = BOLT(model=cases.model(), guide=cases.prompt_guide(cases.model()))
    assert "of kind soft-prompt; bolt reads" in soft.refusal(POSITIVE)


@pytest.mark.thinned
@kinds
def test_half_precision_of_the_base_is_enough(kind):
    for control in (POSITIVE, {"keywords": ("road",), **POSITIVE}):
        technique = bolt(kind=kind, loading=Loading(dtype="bfloat16"))
        for answer in technique.generate(asked(control), decoding=SHORT):
            assert answer.tokens == 6
            assert abs(answer.extra["energy"]) < 1e4
