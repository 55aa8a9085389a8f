"""A guide of kind `class-lm` as an adapter in PEFT's layout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import technique_cases as cases
from levelfield.core.errors import ModelError
from levelfield.generation.techniques._class_lm.network import class_lm, write_adapter
from levelfield.models.guides import guide_named
from levelfield.models.lora import ABOUT, WEIGHTS
from levelfield.models.torch.language_model import language_model

IDS = torch.tensor([[0, 5, 9, 3, 7]])


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_guide_written_as_an_adapter_is_the_model_that_the_guide_makes(tmp_path: Path, family):
    guide = guide_named(cases.class_guide(cases.model(family)))
    write_adapter(guide, tmp_path / "lora")
    written, kept = load_file(tmp_path / "lora" / WEIGHTS), load_file(guide.weights)
    assert len(written) == len(kept)
    for key, tensor in written.items():
        path, letter = re.fullmatch(r"base_model\.model\.(.+)\.lora_([AB])\.weight", key).groups()
        name = {"A": "down", "B": "up"}[letter] + "." + path.replace(".", "/")
        assert tensor.dtype == kept[name].dtype
        assert torch.equal(tensor, kept[name])
    with torch.inference_mode():
        adapted = language_model(str(tmp_path / "lora")).model(input_ids=IDS).logits
        of_guide = class_lm(guide, cases.model(family)).lm.model(input_ids=IDS).logits
    torch.testing.assert_close(adapted, of_guide, atol=1e-4, rtol=1e-4)
    about = json.loads((tmp_path / "lora" / ABOUT).read_text(encoding="utf-8"))
    assert about["fan_in_fan_out"] == (family == "gpt2")
    assert about["target_modules"] == sorted({key[17:-14] for key in written})


def test_only_a_guide_with_an_adapter_is_written_as_one(tmp_path: Path):
    guide = guide_named(cases.vector_guide(cases.model()))
    with pytest.raises(ModelError, match="is of kind vector; expected class-lm"):
        write_adapter(guide, tmp_path / "lora")
    assert not (tmp_path / "lora").exists()
