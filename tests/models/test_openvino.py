"""OpenVINO computes what PyTorch computes, whatever the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tiny_classifier
from levelfield.core.errors import ModelError, UserError
from levelfield.models import converted
from levelfield.models.contracts import Gapped
from levelfield.models.load import forget, load
from levelfield.models.loading import Loading
from levelfield.models.resolve import Resolved

openvino = pytest.importorskip("openvino")

from levelfield.models.openvino import Tensors, forward_of  # noqa: E402

TEXTS = [
    "The lake froze early.",
    "It rained.",
    "",
    "We went home early, all of us, and nobody said a word on the way. " * 12,
    "The lake froze early.",
    "[SEP] is no mark here.",
]
OPENVINO = Loading(engine="openvino")
TORCH = Loading("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conversions")


@pytest.fixture(autouse=True)
def cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tests share conversions, which take seconds."""
    monkeypatch.setenv("LEVELFIELD_CACHE", str(folder))
    forget()
    return folder / "models"


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A random small classifier of each family."""
    folder = tmp_path_factory.mktemp("judges")
    labels = ["bad", "good", "ugly"]
    return {
        family: str(tiny_classifier.save(folder / family, labels, family=family))
        for family in tiny_classifier.FAMILIES
    }


FAMILIES = [
    "bert",
    pytest.param("distilbert", marks=pytest.mark.slow),
    pytest.param("roberta", marks=pytest.mark.slow),
]


@pytest.mark.slow
def test_minilm_embeds_as_torch_does() -> None:
    texts = [*TEXTS, Gapped("The lake ", " early.")]
    ours, ours_cut = load("encoder", "offline/minilm", OPENVINO).sentences(texts)
    theirs, cut = load("encoder", "offline/minilm", TORCH).sentences(texts)
    np.testing.assert_allclose(ours, theirs, atol=2e-6)
    assert np.isnan(ours[2]).all()
    assert ours_cut == cut
    np.testing.assert_allclose((ours[0] * ours[1]).sum(), (theirs[0] * theirs[1]).sum(), atol=1e-6)


@pytest.mark.slow
def test_values_depend_neither_on_the_batch_nor_on_the_order() -> None:
    model: Any = load("encoder", "offline/minilm", OPENVINO)
    alone = np.concatenate([model.sentences([text])[0] for text in TEXTS])
    small: Any = load("encoder", "offline/minilm", Loading(engine="openvino", batch_tokens=40))
    for embedded in (model.sentences(TEXTS)[0], small.sentences(TEXTS[::-1])[0][::-1]):
        np.testing.assert_allclose(alone, embedded, atol=2e-6)
    vectors, _ = model.sentences(["It rained.", TEXTS[0]])
    again, _ = model.sentences([TEXTS[0]])  # what was given is not written over
    np.testing.assert_allclose(vectors[1], again[0], atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_judges_and_states_are_those_of_torch(family: str, judges: dict[str, str]) -> None:
    name = judges[family]
    p, cut = load("classifier", name, OPENVINO).probabilities(TEXTS)
    expected, expected_cut = load("classifier", name, TORCH).probabilities(TEXTS)
    np.testing.assert_allclose(p, expected, atol=1e-5)
    assert cut.tolist() == expected_cut.tolist()
    assert load("classifier", name, OPENVINO).labels == ("bad", "good", "ugly")
    ours, theirs = (load("states", name, loading, layer=1) for loading in (OPENVINO, TORCH))
    for one, other in zip(ours.of(TEXTS), theirs.of(TEXTS), strict=True):
        assert one.ids == other.ids
        np.testing.assert_allclose(one.states, other.states, atol=5e-5)
    words = ["lake", "xyzzy"]
    for a, b in zip(ours.input_vectors(words), theirs.input_vectors(words), strict=True):
        assert (a is None) == (b is None)
        assert a is None or b is None or (a == b).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", [FAMILIES[0], FAMILIES[2]])
def test_a_regressor_gives_the_numbers_of_torch(family: str, tmp_path: Path) -> None:
    name = str(tiny_classifier.save(tmp_path / family, ["score"], family=family))
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    values, cut = load("regressor", name, OPENVINO).values(pairs)
    expected, expected_cut = load("regressor", name, TORCH).values(pairs)
    np.testing.assert_allclose(values, expected, atol=1e-4)
    assert cut.tolist() == expected_cut.tolist()


@pytest.mark.slow
def test_a_conversion_is_made_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load("encoder", "offline/minilm", OPENVINO)
    (folder,) = cache.glob("minilm-53aa51172d142c89-openvino-*-encoder-float32-1")
    assert (folder / "model.bin").stat().st_size > 80_000_000
    monkeypatch.setattr(openvino, "convert_model", lambda *_, **__: pytest.fail("made again"))
    forget()
    load("encoder", "offline/minilm", OPENVINO)
    assert converted.copies_bytes() > 80_000_000


@pytest.mark.slow
def test_layers_of_one_model_are_converted_apart(judges: dict[str, str], cache: Path) -> None:
    states = [
        load("states", judges["bert"], OPENVINO, layer=layer).of(TEXTS[:1])[0] for layer in (1, 2)
    ]
    assert np.abs(states[0].states - states[1].states).max() > 0.01
    assert len(list(cache.glob("bert-*-states[12]-*"))) == 2


@pytest.mark.slow
def test_an_operation_that_openvino_lacks_is_told_in_one_line() -> None:
    def differences(tensors: Tensors) -> list[torch.Tensor]:
        return [torch.diff(tensors["ids"])]

    example = {"ids": torch.ones(2, 8, dtype=torch.long)}
    with pytest.raises(ModelError) as refused:
        forward_of(
            differences,
            Resolved("who/diff", Path("none"), "0", "encoder", "diff"),
            OPENVINO,
            kind="trial",
            example=example,
            outputs=["differences"],
        )
    assert str(refused.value) == (
        "model 'who/diff': OpenVINO can't convert it (it lacks aten::diff); use --engine torch"
    )


def test_other_devices_are_refused() -> None:
    with pytest.raises(UserError, match="--device cuda: engine openvino computes on the CPU"):
        load("encoder", "offline/minilm", Loading("cuda", engine="openvino"))


@pytest.mark.slow
def test_bfloat16_is_near_or_refused_where_the_processor_has_none() -> None:
    loading = Loading(engine="openvino", dtype="bfloat16")
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        with pytest.raises(UserError, match="this processor has no arithmetic for it"):
            load("encoder", "offline/minilm", loading)
        return
    ours, _ = load("encoder", "offline/minilm", loading).sentences(TEXTS[:2])
    theirs, _ = load("encoder", "offline/minilm", TORCH).sentences(TEXTS[:2])
    distance = np.linalg.norm(ours - theirs, axis=1)
    assert 1e-5 < distance.max() < 0.05
