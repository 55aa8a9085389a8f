"""The authors' checkpoint of PriorControl becomes a guide with the same flow and Gaussians."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from latent_checkpoints import P, Published, save_base, save_bert, save_texts
from torch import nn

from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques._latent.latents import latent_model
from levelfield.generation.techniques.multictg.technique import MultiCTG
from levelfield.generation.techniques.priorctg.technique import PriorCTG
from levelfield.models.guides import guide_named
from levelfield_reproductions.convert import convert

SIZE, BLOCKS, HIDDEN = 6, 3, 7
GAUSSIANS = ("negative", "positive", "World", "Sports", "toxic")
"""In the authors' order, which is not that of the guide's labels; one that no text has."""


class Block(nn.Module):
    """One block of the flow, as the layout's description has it, with the authors' names."""

    def __init__(self) -> None:
        super().__init__()
        half = SIZE // 2
        self.global_scale = nn.Parameter(2 * torch.randn(1, SIZE) + 9)
        self.global_offset = nn.Parameter(torch.randn(1, SIZE))
        R, _ = torch.linalg.qr(torch.randn(SIZE, SIZE))
        self.w_perm = nn.Parameter(R, requires_grad=False)
        self.w_perm_inv = nn.Parameter(R.T.clone(), requires_grad=False)
        self.subnet = nn.Sequential(
            nn.Linear(half, HIDDEN), nn.LeakyReLU(0.1), nn.Linear(HIDDEN, SIZE)
        )
        for parameter in self.subnet.parameters():
            parameter.data.normal_(std=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=1)
        a_s, a_t = self.subnet(first).chunk(2, dim=1)
        second = second * torch.exp(2 * torch.tanh(0.1 * a_s)) + 0.1 * a_t
        scale = 0.2 * torch.log1p(torch.exp(self.global_scale / 2))
        z = torch.cat([first, second], dim=1) * scale + self.global_offset
        return torch.nn.functional.linear(z, self.w_perm)


class PublishedPrior(Published):
    """A checkpoint of MultiCTG with a flow, Gaussians and a head."""

    def __init__(self, base: str, bert: str) -> None:
        super().__init__(base, bert, SIZE)
        self.inv_flow = nn.Module()
        self.inv_flow.module_list = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.priors = nn.ParameterList(torch.randn(2, SIZE) for _ in GAUSSIANS)
        self.prior_classify_head = nn.ModuleList([nn.Linear(SIZE, 2)])

    def flow(self, e: torch.Tensor) -> torch.Tensor:
        for block in self.inv_flow.module_list:
            e = block(e)
        return e


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> str:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def published(tmp_path: Path, base: str, bert: str) -> PublishedPrior:
    """In `pytorch_model.bin`."""
    model = PublishedPrior(base, bert).requires_grad_(False)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    return model


def converted(tmp_path: Path, base: str, bert: str, layout: str = "priorctg", **options) -> str:
    chosen = {"model": base, "encoder": bert, "data": save_texts(tmp_path), "positions": P}
    if layout == "priorctg":
        chosen["gaussians"] = ",".join(GAUSSIANS)
    out = tmp_path / "guide"
    source = tmp_path / "pytorch_model.bin"
    convert(layout, source, out, options={**chosen, **options}, allow_pickle=True)
    return str(out)


def test_the_flow_is_the_authors_flow_and_its_inverse_undoes_it(
    tmp_path: Path, base, bert, published
):
    learnt = latent_model(guide_named(converted(tmp_path, base, bert)), base)
    e = torch.randn(50, SIZE, generator=torch.Generator().manual_seed(3))
    expected = published.double().flow(e.double())
    epsilon, log_det = learnt.flow(e.double())
    torch.testing.assert_close(epsilon, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(learnt.flow.inverse(epsilon), e.double(), atol=1e-9, rtol=0)
    J = torch.autograd.functional.jacobian(lambda x: published.flow(x[None])[0], e[0].double())
    assert float(log_det[0]) == pytest.approx(float(torch.linalg.slogdet(J).logabsdet), abs=1e-4)
    assert (epsilon - e).abs().mean() > 0.1


def test_each_label_has_its_own_gaussian(tmp_path: Path, base, bert, published):
    learnt = latent_model(guide_named(converted(tmp_path, base, bert)), base)
    attributes = learnt.guide.attributes
    assert attributes == {"sentiment": ("negative", "positive"), "topic": ("Sports", "World")}
    for attribute, labels in attributes.items():
        for label in labels:
            mean, log_sd = published.priors[GAUSSIANS.index(label)]
            column = learnt.column(attribute, label)
            torch.testing.assert_close(learnt.flow.mean[column], mean.double())
            torch.testing.assert_close(learnt.flow.sd[column], log_sd.exp().double())


def test_a_latent_is_drawn_as_the_authors_draw_it(tmp_path: Path, base, bert, published):
    guide = converted(tmp_path, base, bert)
    technique = PriorCTG(model=base, guide=guide, extension=0.0, spread=0.0)
    e = technique._latent({"topic": "Sports"}, torch.Generator())
    mean = published.priors[GAUSSIANS.index("Sports")][0].double()
    torch.testing.assert_close(published.double().flow(e[None])[0], mean, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("published")
def test_the_guide_writes_for_both_techniques(tmp_path: Path, base, bert):
    guide = converted(tmp_path, base, bert)
    request = Request("1", "The lake", {"sentiment": "positive"})
    for technique in (PriorCTG(model=base, guide=guide), MultiCTG(model=base, guide=guide)):
        (answer,) = technique.generate([request], decoding=Decoding(max_new_tokens=3))
        assert answer.tokens >= 1
    assert "3 affine couplings of width 7" in (Path(guide) / "README.md").read_text()


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("gaussians", "reason"),
    [
        ("negative,positive", "the checkpoint has 5 Gaussians; expected as many labels"),
        ("a,a,World,Sports,toxic", "expected as many labels, each once"),
        ("bad,good,World,Sports,toxic", "sentiment negative is not one of the Gaussians' labels"),
    ],
)
def test_gaussians_are_named_by_labels(tmp_path: Path, base, bert, gaussians: str, reason: str):
    with pytest.raises(UserError, match=reason):
        converted(tmp_path, base, bert, gaussians=gaussians)
    assert not (tmp_path / "guide").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda w: w.pop("inv_flow.module_list.1.global_offset"), "lacks .*global_offset"),
        (lambda w: w["inv_flow.module_list.1.w_perm"].add_(1), "w_perm is not a rotation"),
        (lambda w: w["inv_flow.module_list.1.w_perm_inv"].add_(1), "not the inverse of w_perm"),
        (lambda w: w["inv_flow.module_list.1.global_scale"].fill_(-1e4), "a scale of 0"),
        (
            lambda w: w.update({"inv_flow.module_list.0.vk_householder": torch.zeros(1, SIZE)}),
            "has inv_flow.module_list.0.vk_householder, which the layout does not know",
        ),
        (
            lambda w: [w.pop(name) for name in list(w) if name.startswith("inv_flow")],
            "has no flow .* the layout multictg",
        ),
        (lambda w: w.update({"trans1.0.weight": torch.zeros(4, 12)}), "trans1.0.bias is 6"),
    ],
)
def test_what_is_not_of_the_layout_is_named(tmp_path: Path, base, bert, published, change, reason):
    weights = dict(published.state_dict())
    change(weights)
    torch.save(weights, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=reason):
        converted(tmp_path, base, bert)
    assert not (tmp_path / "guide").exists()


@pytest.mark.usefixtures("published")
def test_the_layout_of_multictg_points_here(tmp_path: Path, base, bert):
    with pytest.raises(ModelError, match="convert it with the layout priorctg"):
        converted(tmp_path, base, bert, layout="multictg")
