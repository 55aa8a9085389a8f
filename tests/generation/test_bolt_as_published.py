"""BOLT's options that are as in the authors' program, against that program's rules."""

from __future__ import annotations

import pytest
import torch

import technique_cases as cases
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.open_rows import frozen
from levelfield.generation.techniques.bolt.rollout import unwanted
from levelfield.generation.techniques.bolt.search import Biases, BiasOptions, BiasSearch
from levelfield.generation.techniques.bolt.technique import BOLT

SHORT = Decoding(max_new_tokens=4)
PROMPTS = ("The lake", "Once upon a time there was", "I")
WORDS = {"keywords": ("road", "it")}


def bolt(**options) -> BOLT:
    base = cases.model()
    return BOLT(
        **{"model": base, "guide": cases.head_guide(base), "repetition_penalty": 1.0, **options}
    )


def search_of(technique: BOLT, control=WORDS) -> BiasSearch:
    requests = [Request(str(n), prompt, control) for n, prompt in enumerate(PROMPTS)]
    return technique._search(technique._ready(requests, SHORT), SHORT, 0)


def straight_through(technique: BOLT, prompt: list[int], biases: torch.Tensor):
    """Ids of prompt and text, the vectors that the base reads for them, and the scores of each
    position, with one-hot vectors whose gradient is that of the softmax."""
    model, table = technique.base.model, technique.base.model.get_input_embeddings().weight.detach()
    weight, banned = model.get_output_embeddings().weight.detach(), unwanted(technique.base)
    vectors, ids, scores = table[torch.tensor(prompt)], [*prompt], []
    for bias in biases:
        s = model(inputs_embeds=vectors[None]).logits[0, -1] + weight @ bias
        s = s.index_fill(0, banned, -torch.inf)
        p = s.softmax(0)
        hot = torch.nn.functional.one_hot(s.argmax(), len(s)).float() + p - p.detach()
        ids.append(int(s.argmax()))
        vectors = torch.cat([vectors, (hot @ table)[None]])
        scores.append(s)
    return ids, vectors, torch.stack(scores)


def test_hard_targets_are_the_loss_of_prompt_and_text_with_their_ids_as_labels():
    technique = bolt(targets="hard", fluency=1.0, keyword_weight=0.0)
    with frozen(technique.base.model):
        search = search_of(technique)
        _, energy, *_ = search._write()
        torch.autograd.backward(energy.sum())
        soft = search_of(bolt(fluency=1.0, keyword_weight=0.0))
        torch.autograd.backward(soft._write()[1].sum())
        for row, (goal, biases) in enumerate(zip(search._goals, search._biases, strict=True)):
            b = biases.b.detach().clone().requires_grad_()
            ids, vectors, _ = straight_through(technique, list(goal.prompt), biases.w[:, None] * b)
            logits = technique.base.model(inputs_embeds=vectors[None]).logits[0]
            labels = torch.tensor(ids[1:])
            loss = torch.nn.functional.cross_entropy(logits[:-1], labels)
            loss.backward()
            assert float(energy[row]) == pytest.approx(float(loss), abs=1e-5)
            torch.testing.assert_close(biases.b.grad, b.grad, atol=1e-6, rtol=1e-3)
            assert b.grad.abs().max() > 1e-5
            assert (soft._biases[row].b.grad - b.grad).abs().max() > 1e-5


def test_the_ramp_may_begin_at_zero():
    def weights(**options) -> list[float]:
        numbers = torch.Generator().manual_seed(0)
        biases = Biases(4, 8, BiasOptions(**options), True, numbers, torch.device("cpu"))
        return biases.w.tolist()

    assert weights() == [0.25, 0.5, 0.75, 1.0]
    assert weights(ramp="from-zero") == [0.0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize("keep", ["energy", "labels"])
def test_the_text_that_is_kept_has_the_least_energy_of_those_that_count(keep, monkeypatch):
    technique = bolt(keep=keep, fluency=5.0, iterations=6, noise=0.5, initial=2.0)
    written = []
    write = BiasSearch._write

    def noted(self):
        rollout, energy, of_labels, labelled = write(self)
        written.append((energy.tolist(), of_labels.tolist(), rollout.tokens.tolist()))
        return rollout, energy, of_labels, labelled

    monkeypatch.setattr(BiasSearch, "_write", noted)
    with frozen(technique.base.model):
        outcomes = search_of(technique, {"sentiment": "positive"}).run()
    differ = 0
    for row, outcome in enumerate(outcomes):
        energies, of_labels, texts = zip(
            *((e[row], c[row], t[row]) for e, c, t in written), strict=True
        )
        counts = energies if keep == "energy" else of_labels
        assert outcome.best.ids == texts[counts.index(min(counts))]
        assert outcome.best.energy == energies[counts.index(min(counts))]
        differ += energies.index(min(energies)) != of_labels.index(min(of_labels))
    assert differ, "both ways keep the same texts"


@pytest.mark.parametrize("positions", ["continuation", "text", "one-hot"])
def test_a_keyword_may_take_the_positions_of_the_prompt(positions, monkeypatch):
    """Without noise: −mean_k Σ_t softmax_t(ℓ_tk) ℓ_tk, over the positions that count.

    In the authors' program the logits at the prompt's positions are its tokens, one-hot.
    """
    monkeypatch.setattr(
        Biases, "gumbel", lambda self, n, before=0: torch.zeros(before + len(self.b), n)
    )
    technique = bolt(positions=positions, fluency=0.0, keyword_weight=1.0)
    with frozen(technique.base.model):
        search = search_of(technique, {"keywords": ("lake", "it")})
        assert set(search._goals[0].prompt) & set(search._goals[0].tokens), "no keyword is in it"
        _, energy, *_ = search._write()
        for row, (goal, biases) in enumerate(zip(search._goals, search._biases, strict=True)):
            prompt = list(goal.prompt)
            _, _, scores = straight_through(technique, prompt, biases.weighted)
            log_p = scores.log_softmax(-1)
            if positions == "text":
                read = technique.base.model(input_ids=torch.tensor([prompt])).logits[0]
                log_p = torch.cat([read[:-1].log_softmax(-1), log_p])
            if positions == "one-hot":
                hot = torch.nn.functional.one_hot(torch.tensor(prompt), log_p.shape[1]).float()
                log_p = torch.cat([hot.log_softmax(-1), log_p])
            values = []
            for token in goal.tokens:
                at = log_p[:, token].clamp(min=-20)
                values.append(-(at.softmax(0) * at).sum())
            expected = torch.stack(values).mean()
            assert float(energy[row]) == pytest.approx(float(expected), abs=1e-4)


def test_signatures_name_what_is_not_the_default():
    plain = bolt().signature.removesuffix("|v:0.1.0")
    for name, value in (
        ("targets", "hard"), ("ramp", "from-zero"), ("keep", "labels"),
        ("positions", "text"), ("positions", "one-hot"),
    ):  # fmt: skip
        assert bolt(**{name: value}).signature == f"{plain}|{name}:{value}|v:0.1.0"
