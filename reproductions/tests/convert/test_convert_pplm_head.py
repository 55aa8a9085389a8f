"""The authors' heads of PPLM: rows become labels, and BOS is in the mean."""

from __future__ import annotations

import pytest
import torch

import published_files
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.logits.terms import Formula
from levelfield.generation.open_rows import OpenRows
from levelfield.generation.techniques._head.network import head_model
from levelfield.generation.techniques.pplm.perturbed import Goal, Perturbation, PerturbedLM
from levelfield.models.guides import guide_named
from levelfield_reproductions.convert import convert

WIDTH = 16
"""Of the states of the tiny model."""


@pytest.fixture
def head(tmp_path):
    """The authors' file, and what is in it."""
    generator = torch.Generator().manual_seed(3)
    weights = {
        "mlp.weight": torch.randn(5, WIDTH, generator=generator),
        "mlp.bias": torch.randn(5, generator=generator),
    }
    torch.save(weights, tmp_path / "SST_classifier_head.pt")
    return tmp_path / "SST_classifier_head.pt", weights


def converted(file, folder, **options):
    options = {"model": published_files.tiny_gpt2(), **options}
    convert("pplm-head", file, folder, options=options, allow_pickle=True)
    return head_model(guide_named(str(folder)), options["model"])


def test_five_labels_have_the_authors_rows(head, tmp_path):
    file, weights = head
    learnt = converted(file, tmp_path / "guide")
    assert learnt.guide.labels[2:4] == ("very positive", "very negative")
    assert learnt.guide.attribute == "sentiment"
    assert learnt.counts_bos
    states = torch.randn(3, WIDTH)
    expected = torch.nn.functional.linear(states, weights["mlp.weight"], weights["mlp.bias"])
    torch.testing.assert_close(learnt(states), expected)


def test_rows_can_be_left_out_and_named(head, tmp_path):
    file, weights = head
    learnt = converted(file, tmp_path / "guide", labels=",,positive,negative,")
    assert learnt.guide.labels == ("positive", "negative")
    torch.testing.assert_close(learnt.weight, weights["mlp.weight"][2:4].T)
    torch.testing.assert_close(learnt.bias, weights["mlp.bias"][2:4])


def test_a_head_of_other_labels_or_another_base_is_refused(head, tmp_path):
    file, _ = head
    with pytest.raises(ModelError, match=r"mlp\.weight is 5 × 16; expected 2 × 16"):
        converted(file, tmp_path / "guide", variant="clickbait")
    with pytest.raises(UserError, match="at least two different ones"):
        converted(file, tmp_path / "guide", labels="a,a,,,")


class Recording:
    """A head that keeps the means that it reads."""

    def __init__(self, counts_bos: bool) -> None:
        self.counts_bos = counts_bos
        self.means: list[torch.Tensor] = []

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        self.means.append(states.detach())
        return states[:, :2]


@pytest.mark.parametrize("texts", [[[0, 5, 7, 11], [0, 9, 4]], [[0], [0]]])
def test_a_head_that_counts_bos_reads_a_mean_with_its_state(texts):
    """n + 1 means with BOS, less n without it, are the state of BOS; through padding and a step."""
    from levelfield.models.torch.language_model import language_model

    base = language_model(published_files.tiny_gpt2())
    heads = Recording(True), Recording(False)
    rows = OpenRows.of(base.model, texts, base.bos_id, base.device)
    goals = [Goal(lambda _: 0, head) for head in heads]
    term = PerturbedLM(rows, goals, Perturbation(strength=0.0, iterations=1, kl=0.0), base.bos_id)
    formula = Formula(((1.0, term),))
    steering = SteeringProcessor(formula, [{}, {}], mask=rows.mask, decoding=Decoding())
    with torch.no_grad():
        bos = base.model.base_model(input_ids=torch.tensor([[0]]))[0][0, 0]
        for step in range(3):
            steering(rows.ids, rows.logits())
            n = torch.tensor([[float(len(text) + step)] for text in texts])
            with_bos, without = (head.means[-1] for head in heads)
            difference = (n + 1) * with_bos - n * without
            torch.testing.assert_close(difference, bos.expand(2, -1), atol=1e-4, rtol=0)
            rows.read(torch.tensor([3, 8]))
