"""Techniques as logits processors in the reader's own `model.generate`."""

from __future__ import annotations

import pytest
import torch

from contract_cases import CASES
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.table import TECHNIQUES
from levelfield.generation.technique import LocalTechnique

PROMPTS = ("The lake", "Once upon a time there was a very old road")
NEW = 6

by_logits = pytest.mark.parametrize(
    "name", [n for n in CASES if TECHNIQUES[n].mechanism == "logits"]
)


class Prompts:
    """Two prompts of several lengths, padded on the left, for a technique's base."""

    def __init__(self, technique: LocalTechnique, control) -> None:
        self.requests = [Request(str(n), text, control) for n, text in enumerate(PROMPTS)]
        self.rows = [technique._prompted(one, NEW).ids for one in self.requests]
        longest = max(map(len, self.rows))
        assert len(set(map(len, self.rows))) == 2
        pad = technique.base.bos_id
        self.ids = torch.tensor([[pad] * (longest - len(r)) + r for r in self.rows])
        self.mask = torch.tensor([[0] * (longest - len(r)) + [1] * len(r) for r in self.rows])
        self.inputs = {
            "input_ids": self.ids,
            "attention_mask": self.mask,
            "max_new_tokens": NEW,
            "pad_token_id": pad,
            "eos_token_id": sorted(technique.base.ends),
        }


def processor(technique, prompts, decoding):
    controls = [one.control for one in prompts.requests]
    return technique.processor(controls, attention_mask=prompts.mask, decoding=decoding)


@by_logits
def test_greedy_texts_are_those_of_the_technique(name):
    technique = CASES[name].make()
    decoding = Decoding(max_new_tokens=NEW, greedy=True)
    prompts = Prompts(technique, CASES[name].controls[0])
    steering = processor(technique, prompts, decoding)
    written = technique.base.model.generate(
        **prompts.inputs, do_sample=False, logits_processor=[steering]
    )
    expected = [one.continuation for one in technique.generate(prompts.requests, decoding=decoding)]
    for row, ids, text in zip(
        prompts.rows, written[:, prompts.ids.shape[1] :], expected, strict=True
    ):
        ends = [n for n, id in enumerate(ids.tolist()) if id in technique.base.ends]
        kept = ids.tolist()[: ends[0] if ends else None]
        assert technique.base.continuation(row, kept) == text


@by_logits
def test_sampled_tokens_have_the_probabilities_of_the_technique(name):
    """The scores that `generate` samples from, against `log_probs` of what it wrote."""
    technique = CASES[name].make()
    decoding = Decoding(top_p=0.95)
    prompts = Prompts(technique, CASES[name].controls[0])
    torch.manual_seed(0)
    written = technique.base.model.generate(
        **prompts.inputs,
        do_sample=True,
        top_k=0,
        logits_processor=[processor(technique, prompts, decoding)],
        output_scores=True,
        return_dict_in_generate=True,
    )
    assert_probabilities(technique, prompts.rows, written, decoding, CASES[name].controls[0])


@pytest.mark.thinned
@by_logits
def test_beams_are_followed_when_they_change_places(name):
    technique = CASES[name].make()
    decoding = Decoding(top_p=1.0)
    prompts = Prompts(technique, CASES[name].controls[0])
    written = technique.base.model.generate(
        **prompts.inputs,
        num_beams=4,
        num_return_sequences=3,
        do_sample=False,
        length_penalty=0.0,
        logits_processor=[processor(technique, prompts, decoding)],
        output_scores=True,
        return_dict_in_generate=True,
    )
    begins = prompts.ids.shape[1]
    for n, (sequence, score) in enumerate(
        zip(written.sequences, written.sequences_scores, strict=True)
    ):
        row = prompts.rows[n // 3]
        tokens = until_end(sequence[begins:].tolist(), technique.base.ends)
        expected = sum(anew(technique, row, tokens, decoding, CASES[name].controls[0]))
        assert float(score) == pytest.approx(expected, abs=1e-4)
    before, after = written.beam_indices[:, :-1], written.beam_indices[:, 1:]
    assert ((before != after) & (after >= 0)).any(), "no beam has changed its place"


@pytest.mark.parametrize("seed", range(20))
def test_each_row_continues_itself_or_else_the_first_equal_beam(seed):
    """Against the loop over all pairs of rows, on texts of two tokens, so that many are equal."""
    numbers = torch.Generator().manual_seed(seed)
    prompts, beams, tokens = 3, 4, 2
    before = torch.randint(0, 2, (prompts * beams, tokens), generator=numbers)
    steering = SteeringProcessor(None, [{}] * prompts)
    steering(before, torch.zeros(len(before), 5))
    drawn = torch.randint(0, beams, (len(before),), generator=numbers)
    chosen = drawn + torch.arange(len(before)) // beams * beams
    if seed % 5 == 0:  # other texts
        before = 7 - before
    for row_of in (chosen, torch.arange(len(before))):
        after = torch.cat([before[row_of], torch.ones(len(before), 1, dtype=torch.long)], dim=1)
        expected = []
        for row, text in enumerate(after.tolist()):
            group = range(row // beams * beams, row // beams * beams + beams)
            equal = [i for i in group if steering._ids[i].tolist() == text[:-1]]
            expected.append(row if row in equal else next(iter(equal), None))
        if None in expected:
            expected = None
        assert steering._sources(after) == expected


def until_end(tokens, ends):
    for n, token in enumerate(tokens):
        if token in ends:
            return tokens[: n + 1]
    return tokens


def assert_probabilities(technique, rows, written, decoding, control):
    begins = written.sequences.shape[1] - len(written.scores)
    for n, row in enumerate(rows):
        tokens = until_end(written.sequences[n, begins:].tolist(), technique.base.ends)
        for step, expected in enumerate(anew(technique, row, tokens, decoding, control)):
            log_p = written.scores[step][n].double().log_softmax(-1)[tokens[step]]
            assert float(log_p) == pytest.approx(expected, abs=1e-5)


def anew(technique, row, tokens, decoding, control):
    """log P of each token; helper models read everything again, token by token where it matters
    which tokens the technique wrote."""
    for step, token in enumerate(tokens):
        scoring = technique.processor([control], decoding=decoding)
        for read in range(step if CASES[technique.name].rereads else 0, step + 1):
            ids = torch.tensor([[*row, *tokens[:read]]])
            with torch.inference_mode():
                logits = technique.base.model(input_ids=ids).logits[:, -1]
                scores = scoring(ids, logits)
        yield float(scores.double().log_softmax(-1)[0, token])
