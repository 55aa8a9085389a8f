"""What PyTorch's models give is what their contracts say."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levelfield
from levelfield.models import contracts
from levelfield.models.contracts import Frame, Gapped, Target
from levelfield.models.load import KEPT, LOADERS, SMALL, forget, load
from levelfield.models.loading import Loading
from levelfield.models.resolve import OURS

CONTRACTS: dict[str, type] = {
    "infilling": contracts.InfillingModel,
    "encoder-decoder": contracts.EncoderDecoderModel,
    "causal": contracts.CausalModel,
    "causal-tokens": contracts.CausalVocabulary,
    "encoder": contracts.SentenceEncoder,
    "states": contracts.TokenEncoder,
    "classifier": contracts.Classifier,
    "regressor": contracts.PairRegressor,
    "choices": contracts.ChoosingModel,
}
TEXTS = ["The lake froze.", "It rained.", "The lake froze.", "We went home early, all of us."]


@pytest.fixture(scope="module")
def models(
    tiny_folders: dict[str, Path],
    causal_folders: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """A small model of each kind."""
    from transformers import BertModel

    import tiny_classifier

    root = tmp_path_factory.mktemp("contracts")
    classifier = tiny_classifier.save(root / "classifier", ["bad", "good"])
    regressor = tiny_classifier.save(root / "regressor", ["score"], family="bert")
    encoder = root / "encoder"
    BertModel(tiny_classifier.model(["a", "b"], family="bert").config).save_pretrained(encoder)
    tiny_classifier.tokenizer().save_pretrained(encoder)
    cpu = Loading("cpu", batch_tokens=40)
    return {
        "infilling": load("infilling", str(tiny_folders["t5"]), cpu),
        "encoder-decoder": load("encoder-decoder", str(tiny_folders["bart"]), cpu),
        "causal": load("causal", str(causal_folders["gpt2"]), cpu),
        "causal-tokens": load("causal-tokens", str(causal_folders["gpt2"]), cpu),
        "encoder": load("encoder", str(encoder), cpu),
        "states": load("states", str(encoder), cpu, layer=1),
        "classifier": load("classifier", str(classifier), cpu),
        "regressor": load("regressor", str(regressor), cpu),
        "choices": load("choices", str(causal_folders["gpt2"]), cpu),
    }


def members(contract: type) -> dict[str, Any]:
    """The public members of a contract and of those that it extends, by name."""
    return {
        name: member
        for base in reversed(contract.__mro__)
        for name, member in vars(base).items()
        if not name.startswith("_")
    }


def test_every_kind_has_a_contract_a_loader_and_a_size() -> None:
    kinds = set(CONTRACTS)
    assert kinds == set(LOADERS) == set(KEPT)
    assert set(SMALL) == OURS


@pytest.mark.parametrize("kind", sorted(CONTRACTS))
def test_a_model_has_every_member_of_its_contract(models: dict[str, Any], kind: str) -> None:
    model = models[kind]
    for name, member in members(CONTRACTS[kind]).items():
        assert hasattr(model, name)
        if callable(member):
            parameters = list(inspect.signature(member).parameters)[1:]
            assert (
                list(inspect.signature(getattr(model, name)).parameters)[: len(parameters)]
                == parameters
            )


@pytest.mark.parametrize("kind", ["infilling", "encoder-decoder"])
def test_targets_have_a_log_probability_a_token(models: dict[str, Any], kind: str) -> None:
    model = models[kind]
    gap = kind == "infilling"
    sources = [Gapped("The lake ", " early.", gap), Gapped("", "", gap), Gapped("We ", "", gap)]
    targets = [[Target("froze", end=True), Target("", end=True)], [Target("It", False)], []]
    likelihoods = model.log_likelihood(sources, targets)
    sizes = [[len(log_p) for log_p in targets_log_p] for targets_log_p in likelihoods.log_p]
    ids = model.token_ids(["froze", "It"])
    assert sizes == [[len(ids[0]) + 1, 0], [len(ids[1])], []]
    assert likelihoods.source_cut == [False] * 3
    assert likelihoods.target_cut == [[False, False], [False], []]
    assert all((log_p <= 0).all() for targets_log_p in likelihoods.log_p for log_p in targets_log_p)
    assert [ends[-1] for ends in model.token_ends(["froze", "It"])] == [5, 2]
    backwards = model.log_likelihood(sources[::-1], targets[::-1]).log_p[::-1]
    for forward, other in zip(likelihoods.log_p, backwards, strict=True):
        for a, b in zip(forward, other, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_causal_model_scores_every_token_and_its_vocabulary_agrees(
    models: dict[str, Any],
) -> None:
    model, vocabulary = models["causal"], models["causal-tokens"]
    assert model.vocabulary_size == vocabulary.vocabulary_size == len(model.unigram_bos())
    assert np.exp(model.unigram_bos()).sum() == pytest.approx(1, abs=1e-5)
    likelihoods = model.log_likelihood(TEXTS)
    assert vocabulary.ids(TEXTS) == model.token_ids(TEXTS)
    first = int(vocabulary.begin == "no")  # which nothing precedes
    assert [likelihood.ids.tolist() for likelihood in likelihoods] == [
        ids[first:] for ids in vocabulary.ids(TEXTS)
    ]
    for text, likelihood in zip(TEXTS, likelihoods, strict=True):
        assert likelihood.log_p.shape == likelihood.ids.shape == likelihood.ends.shape
        assert (likelihood.log_p <= 0).all()
        assert likelihood.ends[-1] == len(text)
        assert not likelihood.cut
    np.testing.assert_array_equal(likelihoods[0].log_p, likelihoods[2].log_p)


def test_a_causal_model_scores_words_after_texts_and_texts_after_prefixes(
    models: dict[str, Any],
) -> None:
    model = models["causal"]
    frames = [Frame(" It was", (" cold", "")), Frame("", (" Then",))]
    words = model.words_after(TEXTS, [frames] * len(TEXTS))
    ids = model.token_ids([" cold", " Then"])
    for likelihoods in words:
        sizes = [[len(log_p) for log_p in frame_log_p] for frame_log_p in likelihoods.log_p]
        assert sizes == [[len(ids[0]), 0], [len(ids[1])]]
        assert likelihoods.cut == [False, False]
        assert (likelihoods.log_p[0][0] <= 0).all()
    np.testing.assert_array_equal(words[0].log_p[0][0], words[2].log_p[0][0])
    after = model.log_likelihood_after(["", "It snowed. "], TEXTS)
    for (likelihoods, other), alone in zip(
        zip(*after, strict=True), model.log_likelihood(TEXTS), strict=True
    ):
        assert (
            likelihoods.ids.tolist()
            == alone.ids.tolist()
            == other.ids.tolist()[-len(likelihoods.ids) :]
        )
        np.testing.assert_allclose(likelihoods.log_p, alone.log_p, atol=1e-5)
        assert (other.log_p <= 0).all()


def test_sentences_have_unit_length_whatever_their_company(models: dict[str, Any]) -> None:
    embeddings, cut = models["encoder"].sentences(["", *TEXTS])
    assert np.isnan(embeddings[0]).all()
    np.testing.assert_allclose(np.linalg.norm(embeddings[1:], axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(
        models["encoder"].sentences(TEXTS[::-1])[0], embeddings[:0:-1], atol=1e-5
    )
    assert cut == [False] * 5


def test_states_have_unit_length_a_token(models: dict[str, Any]) -> None:
    model = models["states"]
    states = model.of(["", *TEXTS])
    assert [text_states.ids for text_states in states] == model.ids(["", *TEXTS])
    assert [text_states.empty for text_states in states] == [True, False, False, False, False]
    for text_states in states:
        assert (
            len(text_states.states)
            == len(text_states.special)
            == len(model.weightless(text_states.ids))
        )
        np.testing.assert_allclose(np.linalg.norm(text_states.states, axis=1), 1, atol=1e-5)
    (vector,) = model.input_vectors(["lake"])
    assert vector is None or vector.shape == states[1].states.shape[1:]


def test_a_classifier_gives_every_label_a_probability(models: dict[str, Any]) -> None:
    model = models["classifier"]
    p, cut = model.probabilities(["", *TEXTS])
    assert model.labels == ("bad", "good")
    assert p.shape == (5, 2)
    assert np.isnan(p[0]).all()
    np.testing.assert_allclose(p[1:].sum(axis=1), 1)
    np.testing.assert_allclose(model.probabilities(TEXTS[::-1])[0], p[:0:-1], atol=1e-5)
    assert cut.tolist() == [False] * 5


def test_a_regressor_gives_each_pair_a_number(models: dict[str, Any]) -> None:
    pairs = [(TEXTS[0], TEXTS[1]), ("", TEXTS[0]), (TEXTS[0], TEXTS[1])]
    values, cut = models["regressor"].values(pairs)
    assert np.isnan(values).tolist() == [False, True, False]
    assert values[0] == values[2]
    assert cut.tolist() == [False] * 3


def test_choices_are_log_probabilities_of_numbers(models: dict[str, Any]) -> None:
    model = models["choices"]
    log_p = model.log_p(TEXTS, range(1, 6))
    assert log_p.shape == (4, 5)
    assert (log_p < 0).all()
    np.testing.assert_allclose(log_p[0], log_p[2])
    assert 0 < model.length(TEXTS[0]) < model.limit
    assert "<|endoftext|>" in model.control_tokens


def test_a_model_is_loaded_once_a_process_and_the_last_ones_are_kept(put_model: Any) -> None:
    loads: list[str] = []

    def make(name: str, loading: Loading) -> object:
        loads.append(f"{name} {loading.dtype}")
        return object()

    put_model("encoder", make)
    first = load("encoder", "a")
    assert load("encoder", "a") is first
    load("encoder", "a", Loading(dtype="bfloat16"))
    assert loads == ["a float32", "a bfloat16"]
    for name in "bc"[: KEPT["encoder"]]:
        load("encoder", name)
    assert load("encoder", "a") is not first
    forget()
    loads.clear()
    load("encoder", "a")
    assert loads == ["a float32"]


def test_everything_between_the_command_line_and_models_imports_without_pytorch() -> None:
    root = Path(levelfield.__file__).parent
    folders = [root / name for name in ("core", "text", "io", "stats", "cli", "metrics")]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    files += (root / "models").glob("*.py")
    parts = [file.relative_to(root.parent).with_suffix("").parts for file in files]
    names = sorted(".".join(path).removesuffix(".__init__") for path in parts)
    code = (
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    importlib.import_module(name)\n"
        "    assert 'torch' not in sys.modules, name"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_only_training_and_generation_import_pytorch_models() -> None:
    """All others ask `load`; training changes weights, and generation reads logits."""
    root = Path(levelfield.__file__).parent
    may = {"models", "generation", "train"}
    files = [f for f in root.rglob("*.py") if f.relative_to(root).parts[0] not in may]
    knowing = [str(f) for f in files if "levelfield.models.torch" in f.read_text(encoding="utf-8")]
    assert knowing == []
