"""Steered states against the formulas written down as plain hooks: one text at a time, no cache."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import technique_cases as cases
import tiny_causal
import tiny_vectors
from contract_cases import CASES
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques._steering.intervention import (
    SteeredModel,
    ablation,
    additions,
)
from levelfield.generation.techniques.ablation.technique import Ablation
from levelfield.generation.techniques.caa.technique import CAA
from levelfield.models.control_vectors import read_control_vector
from levelfield.models.guides import guide_named
from levelfield.models.torch.caches import with_cache
from levelfield.models.torch.decoder_layers import decoder_layers
from levelfield.models.torch.language_model import language_model

POSITIVE = {"sentiment": "positive"}
BOTH = {"sentiment": "positive", "topic": "Sports"}
WHOLE = Decoding(top_p=1.0)
FAMILIES = ("gpt2", "llama")
LISTS = {"gpt2": "transformer.h", "llama": "model.layers"}
ATTENTION = {"gpt2": "attn", "llama": "self_attn"}


def first(output: Any) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output


def replaced(output: Any, states: torch.Tensor) -> Any:
    return (states, *output[1:]) if isinstance(output, tuple) else states


def guide_tensors(family: str, attribute: str = "sentiment") -> dict[str, torch.Tensor]:
    folder = Path(cases.vector_guide(cases.model(family), attribute))
    return safetensors.torch.load_file(folder / "guide.safetensors")


def plain_log_p(
    family: str, ids: list[int], after: Callable[[Any, int], Any], middle: Any = None
) -> torch.Tensor:
    """log P of the next token: (vocabulary,), with hooks of this call alone.

    Args:
        after: (output, layer) -> output of a layer.
        middle: states -> states, of the first layer's input and of what attention gives.
    """
    model = language_model(cases.model(family)).model
    layers = model.get_submodule(LISTS[family])
    hooks = []
    for n, layer in enumerate(layers):
        hooks.append(layer.register_forward_hook(lambda _, __, y, n=n: after(y, n)))
        if middle:
            hooks.append(
                getattr(layer, ATTENTION[family]).register_forward_hook(
                    lambda _, __, y: replaced(y, middle(first(y)))
                )
            )
    if middle:
        hooks.append(layers[0].register_forward_pre_hook(lambda _, x: (middle(x[0]), *x[1:])))
    try:
        with torch.inference_mode():
            return model(input_ids=torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)
    finally:
        for hook in hooks:
            hook.remove()


def assert_each_step(technique: Any, control: Any, plain: Callable[[list[int]], torch.Tensor]):
    """Cached probabilities, in a batch of several lengths, against those of each prefix anew."""
    prompts = ["The lake", "", "Once upon a time there was a road"]
    texts = [" was green", " it", " and then nobody"]
    requests = [Request(str(n), prompt, control) for n, prompt in enumerate(prompts)]
    values = technique.log_probs(requests, texts, decoding=WHOLE)
    base = technique.base
    for prompt, text, log_p in zip(prompts, texts, values, strict=True):
        start, tokens = [base.bos_id, *base.ids(prompt)], base.ids(text)
        assert len(log_p) == len(tokens) > 0
        for step, token in enumerate(tokens):
            expected = plain([*start, *tokens[:step]])[token]
            assert log_p[step] == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_caa_adds_the_vector_to_the_states_of_its_layer(family: str):
    v = guide_tensors(family)["positive"]
    technique = CASES["caa"].make(model=cases.model(family), strength=1.5, layers="0")

    def after(output: Any, layer: int) -> Any:
        return replaced(output, first(output) + 1.5 * v[0]) if layer == 0 else None

    assert_each_step(technique, POSITIVE, lambda ids: plain_log_p(family, ids, after))


@pytest.mark.parametrize("heads", [1, 3, 48])
@pytest.mark.parametrize("family", FAMILIES)
def test_iti_adds_to_its_best_heads_before_the_output_projection(family: str, heads: int):
    """W (x + δ) + b of each layer is W x + b and W δ more."""
    folder = Path(cases.heads_guide(cases.model(family)))
    about = json.loads((folder / "guide.json").read_text(encoding="utf-8"))
    v = safetensors.torch.load_file(folder / "guide.safetensors")["positive"]
    ranked = sorted(range(len(v)), key=lambda head: -about["accuracies"][head])[:heads]
    layers = language_model(cases.model(family)).model.get_submodule(LISTS[family])
    width = v.shape[1]
    more = {}
    for layer, module in enumerate(layers):
        delta = torch.zeros(about["heads"] * width)
        for head in ranked:
            if head // about["heads"] == layer:
                begin = head % about["heads"] * width
                delta[begin : begin + width] = 1.5 * v[head]
        attention = getattr(module, ATTENTION[family])
        more[attention] = (
            delta @ attention.c_proj.weight if family == "gpt2" else attention.o_proj.weight @ delta
        ).detach()

    def plain(ids: list[int]) -> torch.Tensor:
        hooks = [
            attention.register_forward_hook(lambda _, __, y, w=w: replaced(y, first(y) + w))
            for attention, w in more.items()
        ]
        try:
            return plain_log_p(family, ids, lambda _, __: None)
        finally:
            for hook in hooks:
                hook.remove()

    technique = CASES["iti"].make(model=cases.model(family), strength=1.5, heads=heads)
    assert_each_step(technique, POSITIVE, plain)


@pytest.mark.parametrize("family", FAMILIES)
def test_loreft_sets_components_of_the_states_of_its_layers(family: str):
    """Where rows of R are orthonormal, the states' components along them become W h + b."""
    guide = cases.reft_guide(cases.model(family))
    tensors = safetensors.torch.load_file(Path(guide) / "guide.safetensors")
    R, W, b = (tensors[f"positive.{name}"] for name in "RWb")

    def after(output: Any, layer: int) -> Any:
        states = first(output)
        along = sum((states @ r)[..., None] * r for r in R[layer])
        set_to = sum(
            (states @ w + bias)[..., None] * r
            for r, w, bias in zip(R[layer], W[layer], b[layer], strict=True)
        )
        return replaced(output, states - along + set_to)

    technique = CASES["loreft"].make(model=cases.model(family))
    assert_each_step(technique, POSITIVE, lambda ids: plain_log_p(family, ids, after))


@pytest.mark.parametrize("family", FAMILIES)
def test_loreft_adds_the_edits_of_several_attributes_at_its_strength(family: str):
    model = cases.model(family)
    guides = [cases.reft_guide(model), cases.reft_guide(model, "topic", 5)]
    tensors = [safetensors.torch.load_file(Path(g) / "guide.safetensors") for g in guides]

    def after(output: Any, layer: int) -> Any:
        h, total = first(output), 0
        for of_guide, label in zip(tensors, ("negative", "Sports"), strict=True):
            R, W, b = (of_guide[f"{label}.{name}"][layer] for name in "RWb")
            total = total + (h @ W.T + b - h @ R.T) @ R
        return replaced(output, h + 0.7 * total)

    technique = CASES["loreft"].make(model=model, guide=",".join(guides), strength=0.7)
    control = {"topic": "Sports", "sentiment": "negative"}
    assert_each_step(technique, control, lambda ids: plain_log_p(family, ids, after))


@pytest.mark.parametrize("change", ["rank", "layer"])
def test_a_guide_of_edits_that_do_not_fit_is_refused(tmp_path: Path, change: str):
    folder = tmp_path / "sentiment"
    shutil.copytree(cases.reft_guide(cases.model()), folder)
    if change == "rank":
        tensors = safetensors.torch.load_file(folder / "guide.safetensors")
        tensors["positive.b"] = tensors["positive.b"][:, :1].contiguous()
        safetensors.torch.save_file(tensors, folder / "guide.safetensors")
    else:
        about = json.loads((folder / "guide.json").read_text(encoding="utf-8"))
        about["layers"][-1] = 99
        (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    technique = CASES["loreft"].make(guide=str(folder))
    with pytest.raises(ModelError, match=r"R, W and b of positive have|edits layer 99"):
        next(technique.generate([Request("1", "The lake", POSITIVE)]))


def test_a_guide_of_heads_of_another_shape_is_refused(tmp_path: Path):
    folder = tmp_path / "sentiment"
    shutil.copytree(cases.heads_guide(cases.model()), folder)
    about = json.loads((folder / "guide.json").read_text(encoding="utf-8"))
    about["accuracies"].pop()
    (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    technique = CASES["iti"].make(guide=str(folder))
    with pytest.raises(ModelError, match=r"expected one for each of \d+ heads"):
        next(technique.generate([Request("1", "The lake", POSITIVE)]))


def test_by_default_the_layer_that_the_guide_names_is_steered():
    v = guide_tensors("gpt2")["positive"]

    def after(output: Any, layer: int) -> Any:
        return replaced(output, first(output) + v[1]) if layer == 1 else None

    technique = CASES["caa"].make()
    assert_each_step(technique, POSITIVE, lambda ids: plain_log_p("gpt2", ids, after))


def test_vectors_of_several_layers_and_attributes_add_up():
    mood, topic = guide_tensors("gpt2")["positive"], guide_tensors("gpt2", "topic")["Sports"]
    base = cases.model()
    guides = f"{cases.vector_guide(base)},{cases.vector_guide(base, 'topic')}"
    technique = CAA(model=base, guide=guides, strength=0.5, layers="0-1")

    def after(output: Any, layer: int) -> Any:
        return replaced(output, first(output) + 0.5 * (mood[layer] + topic[layer]))

    assert_each_step(technique, BOTH, lambda ids: plain_log_p("gpt2", ids, after))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("strength", [1.0, 0.3])
def test_ablation_takes_the_direction_out_of_every_state(family: str, strength: float):
    r = guide_tensors(family)["positive"][0]
    r = r / r.norm()

    def without(states: torch.Tensor) -> torch.Tensor:
        return states - strength * (states @ r)[..., None] * r

    def after(output: Any, _: int) -> Any:
        return replaced(output, without(first(output)))

    technique = CASES["ablation"].make(model=cases.model(family), strength=strength, layer=0)
    assert_each_step(technique, POSITIVE, lambda ids: plain_log_p(family, ids, after, without))


@pytest.mark.parametrize("family", FAMILIES)
def test_after_ablation_no_state_has_anything_along_the_directions(family: str):
    base = cases.model(family)
    guides = f"{cases.vector_guide(base)},{cases.vector_guide(base, 'topic')}"
    technique = Ablation(model=base, guide=guides)
    directions = [
        guide_tensors(family)["positive"][1],
        guide_tensors(family, "topic")["Sports"][1],
    ]
    left: list[torch.Tensor] = []
    layers = technique.base.model.get_submodule(LISTS[family])
    with technique.steering(BOTH), torch.inference_mode():
        hooks = [
            layer.register_forward_hook(lambda _, __, y: left.append(first(y))) for layer in layers
        ]
        technique.base.model(input_ids=torch.tensor([[0, 5, 9, 3]]))
    for hook in hooks:
        hook.remove()
    assert len(left) == len(layers)
    for states in left:
        assert states.abs().max() > 0.01
        for r in directions:
            assert (states @ (r / r.norm())).abs().max() < 1e-5


def test_ablation_is_that_of_weights_that_write_nothing_along_the_direction(tmp_path: Path):
    """Arditi et al. 2024, section 4: the same by (I − r̂ r̂ᵀ) W of all that writes to the states."""
    folder = tiny_causal.save_causal(tmp_path / "m", *tiny_causal.CAUSAL["llama"])
    steered, plain = (language_model.__wrapped__(str(folder)).model for _ in range(2))
    random = torch.Generator().manual_seed(0)
    r = torch.nn.functional.normalize(torch.randn(16, generator=random), dim=0)
    rest = torch.eye(16) - torch.outer(r, r)
    with torch.inference_mode():
        embeddings = plain.model.embed_tokens.weight
        embeddings.copy_(embeddings @ rest)
        for layer in plain.model.layers:
            for module in (layer.self_attn.o_proj, layer.mlp.down_proj):
                module.weight.copy_(rest @ module.weight)
        ids = torch.tensor([[0, 7, 3, 11, 30]])
        model = SteeredModel(steered, ablation(steered, r[:, None], 1.0))
        torch.testing.assert_close(
            model(input_ids=ids).logits, plain(input_ids=ids).logits, atol=1e-4, rtol=1e-4
        )


@pytest.mark.parametrize("family", tiny_causal.CAUSAL)
def test_every_architecture_is_steered_as_its_layers_say(family: str, tmp_path: Path):
    """The last states, before the final norm, have the vector of the last layer more."""
    folder = tiny_causal.save_causal(tmp_path / "m", *tiny_causal.CAUSAL[family])
    model = language_model.__wrapped__(str(folder)).model
    _, layers = decoder_layers(model)
    width = model.config.get_text_config().hidden_size
    v = torch.linspace(-1, 1, width)
    left: list[torch.Tensor] = []
    ids = torch.tensor([[0, 7, 3, 11]])
    with torch.inference_mode():
        hook = layers[-1].register_forward_hook(lambda _, __, y: left.append(first(y)))
        before = model(input_ids=ids).logits
        hook.remove()
        intervention = additions(model, {len(layers) - 1: v})
        hook = layers[-1].register_forward_hook(lambda _, __, y: left.append(first(y)))
        logits = SteeredModel(model, intervention)(input_ids=ids).logits
        torch.testing.assert_close(left[1] - left[0], v.expand(1, 4, width), atol=1e-4, rtol=1e-4)
        assert (logits - before).abs().max() > 1e-3
        assert torch.equal(model(input_ids=ids).logits, before)
        hook.remove()
        direction = torch.nn.functional.normalize(v, dim=0)
        steered = SteeredModel(model, ablation(model, direction[:, None], 1.0))
        hook = layers[-1].register_forward_hook(lambda _, __, y: left.append(first(y)))
        steered(input_ids=ids)
        assert left[-1].matmul(direction).abs().max() < 1e-5
    hook.remove()


def test_within_steering_the_base_itself_writes_steered_texts():
    technique = CASES["caa"].make(strength=3.0)
    ids = torch.tensor([[0, 7, 3]])
    model = technique.base.model
    with torch.inference_mode():
        before = model(input_ids=ids).logits
        with technique.steering(POSITIVE):
            assert not torch.equal(model(input_ids=ids).logits, before)
        assert torch.equal(model(input_ids=ids).logits, before)
    with pytest.raises(UserError, match="not a label"), technique.steering({"sentiment": "grim"}):
        pass


# --- scope --------------------------------------------------------------------------------------

SCOPES = [("after-prompt", 0), ("last-1", 1), ("last-3", 3), ("last-99", 99)]


def log_p_of_texts(technique: Any) -> list[tuple[list[int], list[int], Any]]:
    """What the base reads before each text, the tokens of the text, and their log-probabilities in
    a batch of several lengths."""
    prompts = ["The lake", "", "Once upon a time there was a road"]
    texts = [" was green", " it", " and then nobody"]
    requests = [Request(str(n), prompt, POSITIVE) for n, prompt in enumerate(prompts)]
    values = technique.log_probs(requests, texts, decoding=WHOLE)
    base = technique.base
    starts = [[base.bos_id, *base.ids(prompt)] for prompt in prompts]
    return list(zip(starts, map(base.ids, texts), values, strict=True))


@pytest.mark.parametrize(("scope", "within"), SCOPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_caa_adds_its_vector_to_the_tokens_of_its_scope(family: str, scope: str, within: int):
    v = guide_tensors(family)["positive"]
    technique = CASES["caa"].make(model=cases.model(family), strength=1.5, layers="0", scope=scope)
    for start, tokens, log_p in log_p_of_texts(technique):
        begin = max(0, len(start) - within)

        def after(output: Any, layer: int, begin: int = begin) -> Any:
            states = first(output).clone()
            states[:, begin:] += 1.5 * v[0]
            return replaced(output, states) if layer == 0 else None

        for step, token in enumerate(tokens):
            expected = plain_log_p(family, [*start, *tokens[:step]], after)[token]
            assert log_p[step] == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize(("scope", "within"), SCOPES)
@pytest.mark.parametrize("name", ["caa", "ablation", "iti", "loreft"])
def test_tokens_before_the_scope_are_read_by_the_base_alone(name: str, scope: str, within: int):
    """As the base's cache of them and a steered call for the rest."""
    everywhere = CASES[name].make()
    model = everywhere.base.model
    for start, tokens, log_p in log_p_of_texts(CASES[name].make(scope=scope)):
        begin = max(0, len(start) - within)
        for step, token in enumerate(tokens):
            ids = torch.tensor([[*start, *tokens[:step]]])
            with torch.inference_mode():
                cache = None
                if begin:
                    cache = model(input_ids=ids[:, :begin], use_cache=True).past_key_values
                if begin == ids.shape[1]:
                    logits = model(input_ids=ids).logits
                else:
                    with everywhere.steering(POSITIVE):
                        logits = model(input_ids=ids[:, begin:], **with_cache(cache)).logits
            expected = logits[0, -1].double().log_softmax(-1)[token]
            assert log_p[step] == pytest.approx(float(expected), abs=1e-5)


def test_a_scope_that_has_every_token_is_all_and_only_other_scopes_are_in_the_signature():
    caa = CASES["caa"].make
    several = (log_p_of_texts(caa(scope=scope)) for scope in ("last-99", "all"))
    for (_, _, log_p), (_, _, expected) in zip(*several, strict=True):
        assert log_p == pytest.approx(expected, abs=1e-6)
    assert "scope" not in caa(scope="all").signature
    assert "|scope:last-1|" in caa(scope="last-1").signature


@pytest.mark.parametrize("scope", ["prompt", "last-0", "last-", "LAST-1", ""])
def test_a_wrong_scope_is_an_error(scope: str):
    with pytest.raises(UserError, match="expected all, after-prompt or last-K"):
        CAA(scope=scope)


def test_a_scope_other_than_all_is_not_for_a_generate_of_the_user():
    technique = CASES["caa"].make(scope="last-1")
    with (
        pytest.raises(UserError, match="where a prompt ends"),
        technique.steering(POSITIVE),
    ):
        pass


# --- vectors from files -------------------------------------------------------------------------


def sae_row(path: Path, values: torch.Tensor, name: str = "row") -> str:
    safetensors.torch.save_file({name: values}, path)
    return str(path)


def test_one_vector_of_a_file_steers_its_layer(tmp_path: Path):
    v = torch.randn(16, generator=torch.Generator().manual_seed(3))
    file = sae_row(tmp_path / "row.safetensors", v[None])
    technique = CAA(
        model=cases.model(), strength=1.0, vectors=f"positive={file}@0,negative=-{file}@0"
    )

    for label, sign in (("positive", 1), ("negative", -1)):

        def after(output: Any, layer: int, sign: int = sign) -> Any:
            return replaced(output, first(output) + sign * v) if layer == 0 else None

        assert_each_step(
            technique,
            {"sentiment": label},
            lambda ids, after=after: plain_log_p("gpt2", ids, after),
        )


def test_all_layers_of_a_control_vector_are_steered(tmp_path: Path):
    file = tiny_vectors.save_file(cases.model(), tmp_path / "v.gguf", layers=(0, 1))
    v = read_control_vector(file).vectors

    def after(output: Any, layer: int) -> Any:
        return replaced(output, first(output) - torch.from_numpy(v[layer]))

    technique = CAA(model=cases.model(), strength=1.0, vectors=f"grim=-{file}")
    control = {"mood": "grim"}
    assert_each_step(technique, control, lambda ids: plain_log_p("gpt2", ids, after))
    with pytest.raises(UserError, match=r"v.gguf has 2 vectors; choose one with layer=N"):
        Ablation(model=cases.model(), vectors=f"grim={file}").log_probs(
            [Request("1", "a", control)], [" it"]
        )


def test_a_file_that_changes_is_read_anew(tmp_path: Path):
    file = tmp_path / "row.safetensors"
    technique_of = lambda: CAA(model=cases.model(), vectors=f"positive={file}@0")  # noqa: E731
    values = []
    for seed in (0, 1):
        sae_row(file, torch.randn(16, generator=torch.Generator().manual_seed(seed)))
        values.append(technique_of().log_probs([Request("1", "a", POSITIVE)], [" it"])[0])
        assert file.name in technique_of().signature
    assert not np.allclose(*values)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("positive", 'vectors has "positive"; expected LABEL=FILE.gguf or LABEL=FILE.safet'),
        ("positive=ROW", "names its layers itself"),
        ("positive=none.gguf", 'there is no file "none.gguf"'),
        ("positive=ROW@0,positive=-ROW@0", "two files are for the same label"),
    ],
)
def test_words_that_name_no_vectors_are_one_line(tmp_path: Path, words: str, message: str):
    file = sae_row(tmp_path / "row.safetensors", torch.ones(16))
    with pytest.raises(UserError, match=message) as caught:
        CAA(vectors=words.replace("ROW", file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "layer", "message"),
    [
        (torch.ones(5), 0, "the vector of layer 0 has the width 5; the states of .* have 16"),
        (torch.ones(16), 2, "has a vector of layer 2; .* has the layers 0 to 1"),
        (torch.full((16,), torch.nan), 0, "of layer 0 has values that are not finite"),
        (torch.full((16,), torch.inf), 1, "of layer 1 has values that are not finite"),
        (torch.ones(2, 16), 0, r"has row \(2, 16\); expected one vector"),
    ],
)
def test_a_vector_that_does_not_fit_is_one_line(tmp_path: Path, values, layer, message: str):
    file = sae_row(tmp_path / "row.safetensors", values)
    technique = CAA(model=cases.model(), vectors=f"positive={file}@{layer}")
    with pytest.raises(ModelError, match=message) as caught:
        next(technique.generate([Request("1", "a", POSITIVE)]))
    assert "\n" not in str(caught.value)


def damaged(folder: Path, **about: Any) -> dict[str, torch.Tensor]:
    shutil.copytree(cases.vector_guide(cases.model()), folder)
    path = folder / "guide.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **about}), "utf-8")
    return safetensors.torch.load_file(folder / "guide.safetensors")


@pytest.mark.parametrize(
    ("about", "change", "message"),
    [
        ({}, lambda v: v[:, :5].contiguous(), "the vector of layer 0 has the width 5"),
        ({}, lambda v: v * torch.nan, "negative are not all finite numbers"),
        ({"layers": [0, 7]}, lambda v: v, "a vector of layer 7; .* has the layers 0 to 1"),
        ({"layers": [0]}, lambda v: v, r"shape \(2, 16\); expected one for each of 1 layers"),
        ({"layer": 5}, lambda v: v, "has no vector of layer 5; it has 0, 1"),
    ],
)
def test_a_guide_that_does_not_fit_is_one_line(tmp_path: Path, about, change, message: str):
    tensors = damaged(tmp_path / "g", **about)
    changed = {label: change(vectors) for label, vectors in tensors.items()}
    safetensors.torch.save_file(changed, tmp_path / "g" / "guide.safetensors")
    guide_named.cache_clear()
    technique = CAA(model=cases.model(), guide=str(tmp_path / "g"))
    with pytest.raises(UserError, match=message) as caught:
        next(technique.generate([Request("1", "a", POSITIVE)]))
    assert "\n" not in str(caught.value)


def test_a_vector_of_length_0_has_no_direction(tmp_path: Path):
    file = sae_row(tmp_path / "row.safetensors", torch.zeros(16))
    technique = Ablation(model=cases.model(), vectors=f"positive={file}@1")
    with pytest.raises(ModelError, match="of layer 1 is 0 and has no direction"):
        next(technique.generate([Request("1", "a", POSITIVE)]))


def test_layers_are_numbers_and_ranges():
    for words in ("a", "3-1", "1,,2", "-1", "1-"):
        with pytest.raises(UserError, match="expected numbers and ranges"):
            CAA(layers=words)
    assert "layers:0,2,3,4" in CASES["caa"].make(layers="2-4,0,3").signature


def test_vectors_serve_one_attribute_and_no_guide_beside_them(tmp_path: Path):
    file = sae_row(tmp_path / "row.safetensors", torch.ones(16))
    technique = CAA(model=cases.model(), vectors=f"positive={file}@0")
    assert "one attribute at a time" in technique.refusal(BOTH)
    assert "there are positive" in technique.refusal({"sentiment": "grim"})
    with pytest.raises(UserError, match="a guide or vectors, not both"):
        CAA(vectors=f"positive={file}@0", guide="x")
