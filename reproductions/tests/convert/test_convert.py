"""Converting published files: what is read, what is refused, and what is left."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import published_files
from levelfield.cli import levelfield
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.dexperts.technique import DExperts
from levelfield.models.torch.language_model import language_model
from levelfield_reproductions.convert import convert
from levelfield_reproductions.convert.reading import PublishedFiles


@pytest.fixture
def experts(tmp_path):
    """The authors' folder, and the models in it."""
    folder = tmp_path / "large"
    labels = {"positive": 1, "negative": 2}
    return folder, {
        label: published_files.gpt2(folder / f"finetuned_gpt2_{label}", seed=seed)
        for label, seed in labels.items()
    }


@pytest.mark.parametrize("layout", ["gedi", "dexperts"])
def test_pickled_weights_are_not_read_unless_it_is_allowed(layout, tmp_path):
    published_files.gpt2(tmp_path / "authors")
    with pytest.raises(ModelError, match=r"pickled.*--allow-pickle"):
        convert(layout, tmp_path / "authors", tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Bomb:
    """Runs code where it is unpickled."""

    def __reduce__(self):
        return (print, ("ran",))


def test_a_pickle_that_would_run_code_is_refused_even_so(tmp_path, capsys):
    published_files.gpt2(tmp_path / "authors")
    torch.save({"transformer.wte.weight": Bomb()}, tmp_path / "authors" / "pytorch_model.bin")
    with pytest.raises(
        ModelError, match="can't be read as tensors alone: it holds print;"
    ) as raised:
        convert("dexperts", tmp_path / "authors", tmp_path / "out", allow_pickle=True)
    assert "weights_only" not in str(raised.value)
    assert "ran" not in capsys.readouterr().out


def test_damaged_weights_are_an_error_without_advice_to_run_them(tmp_path):
    published_files.gpt2(tmp_path / "authors")
    (tmp_path / "authors" / "pytorch_model.bin").write_bytes(b"garbage")
    with pytest.raises(ModelError, match="it is damaged, or from another program") as raised:
        convert("dexperts", tmp_path / "authors", tmp_path / "out", allow_pickle=True)
    assert "weights_only" not in str(raised.value)


def test_experts_compute_what_the_authors_files_compute(experts, tmp_path):
    folder, models = experts
    out = tmp_path / "out"
    usage = convert("dexperts", folder, out, allow_pickle=True).usage
    assert usage.format(out="X").endswith("experts=negative=X/negative,positive=X/positive")
    row = torch.tensor([[5, 7, 11]])
    for label, model in models.items():
        with torch.inference_mode():
            mine = language_model(str(out / label)).model(input_ids=row).logits
            assert torch.allclose(mine, model(input_ids=row).logits, atol=1e-5)
    pairs = f"positive={out}/positive,negative={out}/negative"
    technique = DExperts(model=published_files.tiny_gpt2(), experts=pairs)
    requests = [Request("1", "The lake", {"sentiment": "positive"})]
    assert next(iter(technique.generate(requests, decoding=Decoding(max_new_tokens=3)))).tokens


def test_one_expert_from_safetensors_needs_no_leave(tmp_path):
    model = published_files.gpt2(tmp_path / "one")
    weights = {name: t.clone() for name, t in model.transformer.state_dict().items()}
    (tmp_path / "one" / "pytorch_model.bin").unlink()
    save_file(weights, tmp_path / "one" / "model.safetensors")  # of the body, without a head
    convert("dexperts", tmp_path / "one", tmp_path / "out")
    row = torch.tensor([[5, 7, 11]])
    with torch.inference_mode():
        mine = language_model(str(tmp_path / "out")).model(input_ids=row).logits
        assert torch.allclose(mine, model(input_ids=row).logits, atol=1e-5)


def test_a_head_of_its_own_is_kept(tmp_path):
    head = {
        "lm_head.weight": torch.randn(published_files.gpt2(tmp_path / "x").lm_head.weight.shape)
    }
    published_files.gpt2(tmp_path / "one", extra=head)
    convert("dexperts", tmp_path / "one", tmp_path / "out", allow_pickle=True)
    assert torch.equal(
        language_model(str(tmp_path / "out")).model.lm_head.weight, head["lm_head.weight"]
    )


def test_a_tokenizer_is_the_folders_own_or_one_by_name(tmp_path):
    published_files.gpt2(tmp_path / "one", words=False)
    with pytest.raises(ModelError, match="has no tokenizer"):
        convert("dexperts", tmp_path / "one", tmp_path / "out", allow_pickle=True)
    options = {"tokenizer": published_files.tiny_gpt2()}
    convert("dexperts", tmp_path / "one", tmp_path / "out", options=options, allow_pickle=True)
    assert language_model(str(tmp_path / "out")).ids("The lake") == language_model(
        published_files.tiny_gpt2()
    ).ids("The lake")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("transformer.ln_f.bias"), r"lacks transformer\.ln_f\.bias"),
        (
            lambda w: w.update({"transformer.ln_f.bias": torch.zeros(3)}),
            r"transformer\.ln_f\.bias is 3; expected 16",
        ),
        (lambda w: w.update({"z.weight": torch.zeros(3)}), r"has z\.weight, which the layout"),
        (
            lambda w: w["transformer.ln_f.bias"].fill_(float("nan")),
            "numbers that are not finite",
        ),
        (lambda w: w.update({"step": 3}), "step is a int; expected tensors"),
        (
            lambda w: w.update({"transformer.ln_f.bias": torch.zeros(16).to_sparse()}),
            r"ln_f\.bias is sparse; expected plain numbers",
        ),
        (
            lambda w: w.update({"transformer.ln_f.bias": torch.zeros(16, device="meta")}),
            r"ln_f\.bias is without values",
        ),
        (
            lambda w: w.update({"transformer.ln_f.bias": torch.zeros(16, dtype=torch.complex64)}),
            r"ln_f\.bias is complex",
        ),
        (
            lambda w: w.update(
                {
                    "transformer.ln_f.bias": torch.quantize_per_tensor(
                        torch.ones(16), 1, 0, torch.qint8
                    )
                }
            ),
            r"ln_f\.bias is quantised",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named_and_nothing_is_left(change, message, tmp_path):
    published_files.gpt2(tmp_path / "one")
    path = tmp_path / "one" / "pytorch_model.bin"
    weights = torch.load(path, weights_only=True)
    change(weights)
    torch.save(weights, path)
    with pytest.raises(ModelError, match=message):
        convert("dexperts", tmp_path / "one", tmp_path / "out", allow_pickle=True)
    assert {p.name for p in tmp_path.iterdir()} == {"one"}


def test_invalid_options_are_errors(experts, tmp_path):
    folder, _ = experts
    with pytest.raises(UserError, match="there is no layout 'gpt3'; there are gedi"):
        convert("gpt3", folder, tmp_path / "out")
    with pytest.raises(UserError, match="has no option 'label'; there are tokenizer"):
        convert("dexperts", folder, tmp_path / "out", options={"label": "x"})
    with pytest.raises(UserError, match="option kept=0: expected a whole number from 1 on"):
        convert("multictg", folder, tmp_path / "out", options={"data": "x", "kept": "0"})
    with pytest.raises(UserError, match="option keep_x"):
        convert("multictg", folder, tmp_path / "out", options={"keep-x": "1", "keep_x": "1"})
    with pytest.raises(UserError, match="variant=x: expected sentiment, topic or detoxifier"):
        convert("gedi", folder, tmp_path / "out", options={"variant": "x"})
    with pytest.raises(UserError, match="no file or folder"):
        convert("dexperts", tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(UserError, match="is not empty"):
        convert("dexperts", folder, folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"neither config\.json nor folders"):
        convert("dexperts", tmp_path / "empty", tmp_path / "out")


def test_a_checkpoint_may_have_its_tensors_under_a_key(tmp_path):
    torch.save({"epoch": 3, "state": {"w": torch.ones(2)}}, tmp_path / "a.pt")
    source = PublishedFiles(tmp_path / "a.pt", allow_pickle=True)
    assert source.tensors(within="state").take("w", 2).tolist() == [1, 1]
    with pytest.raises(ModelError, match="nothing under 'model'"):
        source.tensors(within="model")


def test_the_command_converts_and_says_what_to_do_with_it(experts, tmp_path):
    folder, _ = experts
    out = tmp_path / "out"
    words = ["convert", "dexperts", str(folder), "--out", str(out), "--allow-pickle"]
    ran = CliRunner().invoke(levelfield, words)
    assert ran.exit_code == 0, ran.output
    assert f"positive={out}/positive" in ran.output
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "converted from the authors'" in card
    assert "trained with" not in card
    assert json.loads((out / "positive" / "config.json").read_text())["model_type"] == "gpt2"
