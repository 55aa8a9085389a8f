"""Models by name: those that are not there, not whole, not of the right kind or not safe."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BartConfig,
    BartForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
)

from command_line import Run, Write, finish, start, values

Folders = dict[str, Path]


TEXT = {
    "id": "a",
    "text": "It rained all night. The river rose and the cellar filled with water.",
    "prompt": "It rained",
    "control": {"sentiment": "negative"},
}


@pytest.fixture
def pegasus(tiny_folders: Folders, here: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(tiny_folders["pegasus"], here / "model"))


@pytest.fixture
def refuses(run: Run, write: Write) -> Any:
    """What is said of a model."""

    def refuses(model: object, *words: str) -> str:
        texts = write("t.jsonl", [TEXT])
        return run("score", texts, "-m", "ctrleval.consistency", "--model", model, *words).complaint

    return refuses


def pickled(folder: Path) -> None:
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()


@pytest.mark.thinned
@pytest.mark.parametrize("family", ["pegasus", "t5", "bart"])
def test_any_infilling_family_in_a_folder_scores_all_aspects(
    run: Run, write: Write, tiny_folders: Folders, family: str
) -> None:
    texts = write("t.jsonl", [TEXT])
    options = ("--model", tiny_folders[family], "-o", "iwf=wordfreq", "--json")
    ran = run("score", texts, "-m", "ctrleval", *options)
    assert ran.code == 0, ran.err
    means = {m["metric"]: m["overall"]["mean"] for m in ran.json["metrics"]}
    assert means["ctrleval.coherence"] < 0
    assert means["ctrleval.consistency"] < 0
    assert 0 < means["ctrleval.attribute-relevance"] < 1


@pytest.mark.thinned
@pytest.mark.parametrize("family", ["pegasus", "t5", "bart"])
def test_fifty_thousand_characters_have_a_value_from_a_model_that_reads_far_less(
    run: Run, write: Write, tiny_folders: Folders, family: str
) -> None:
    long = TEXT | {"text": "It rained " + "and the river rose " * 2700 + ". We left."}
    options = ("--model", tiny_folders[family], "-o", "iwf=wordfreq", "--json")
    ran = run(
        "score",
        write("t.jsonl", [long]),
        "-m",
        "ctrleval.consistency",
        "-m",
        "ctrleval.coherence",
        *options,
    )
    assert ran.code == 0, ran.err
    for metric in ran.json["metrics"]:
        assert metric["signature"].endswith("n:1 undefined:0 truncated:1")


def test_a_text_that_holds_the_gap_token_is_undefined_and_says_so(
    run: Run, write: Write, tiny_folders: Folders
) -> None:
    texts = write("t.jsonl", [TEXT | {"text": "It rained <mask_1> all night. It was cold."}])
    options = ("--model", tiny_folders["pegasus"], "-o", "iwf=wordfreq", "--json")
    for metric in run("score", texts, "-m", "ctrleval", *options).json["metrics"]:
        assert metric["undefined"] == {"the text holds the model's gap token <mask_1>": 1}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("./nowhere", "there is no model folder './nowhere'"),
        ("/nowhere/at/all", "there is no model folder"),
        ("a/b/c", "there is no model folder 'a/b/c'"),
        ("offline/maxilm", "there are offline/minilm, offline/infill-amateur"),
        ("google/pegasus large", "is neither a folder nor a model name"),
        ("google//pegasus", "there is no model folder"),
        ("..", "has no config.json"),
        ("-", "'-'"),
        ("a" * 200, "is neither a folder nor a model name"),
        ("🙂/🙂", "is neither a folder nor a model name"),
        ("nobody/no-such-model", "without a network, use offline/minilm"),
        ("nobody/no-such-model@v1", "--revision v1"),
        ("google/pegasus-large", "hf download google/pegasus-large --revision refs/pr/10"),
    ],
)
def test_a_model_that_can_not_be_had_is_named_with_what_to_do(
    refuses: Any, monkeypatch: pytest.MonkeyPatch, here: Path, name: str, said: str
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(here / "hub"))
    assert said in refuses(name)


def test_without_a_network_a_hub_name_gets_one_line_and_no_long_wait(write: Write) -> None:
    texts = write("t.jsonl", [TEXT])
    options = ("-m", "ctrleval.consistency", "--model", "nobody/no-such-model")
    said = finish(start("score", texts, *options, HF_HUB_OFFLINE="1")).complaint
    assert "HF_HUB_OFFLINE is set" in said
    assert "hf download nobody/no-such-model --local-dir FOLDER" in said


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (None, "has no config.json"),
        ("", "config.json can't be read"),
        ("[]", "does not say a model_type"),
        ('{"model_type": "pegasus"', "config.json can't be read"),
        ('{"model_type": 5}', "model_type: expected a string, found the number 5"),
        ('{"model_type": ["pegasus"]}', "model_type: expected a string, found a list"),
        ('{"model_type": "pegasus", "architectures": 5}', "architectures: expected a list"),
        ('{"model_type": "pegasus", "architectures": [5]}', "architectures: expected a list"),
        ('{"model_type": "pegasus", "is_encoder_decoder": 1}', "expected true or false"),
        ('{"model_type": "t5", "model_type": "pegasus"}', '"model_type" appears twice'),
        ("[" * 100_000, "nested too deeply"),
        ('{"model_type": "unheard-of", "is_encoder_decoder": true}', "unheard-of"),
        ('{"model_type": "marian", "is_encoder_decoder": true}', "families that do"),
        ("\x00" * 99, "config.json can't be read"),
    ],
)
def test_a_folder_whose_config_is_no_config_is_refused(
    refuses: Any, pegasus: Path, config: str | None, said: str
) -> None:
    (pegasus / "config.json").unlink()
    if config is not None:
        (pegasus / "config.json").write_text(config)
    assert said in refuses(pegasus)


@pytest.mark.parametrize(
    "choices",
    [{"num_attention_heads": -1}, {"hidden_act": 5}, {"layer_norm_eps": "x"}, {"vocab_size": []}],
)
def test_a_configuration_that_only_looks_right_is_refused_before_any_text_is_read(
    run: Run, write: Write, here: Path, choices: dict[str, Any]
) -> None:
    from levelfield.models.resolve import OFFLINE_MODEL, resolve

    folder = Path(shutil.copytree(resolve(OFFLINE_MODEL).path, here / "broken"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | choices))
    texts = write("t.jsonl", [TEXT | {"source": "It rained."}])
    complaint = run("score", texts, "-m", "cosine.source", "--model", folder).complaint
    assert complaint.startswith("model 'broken' can't be loaded: ")


@pytest.mark.thinned
@pytest.mark.parametrize("lacking", ["layer.3.output.dense.weight", "word_embeddings.weight"])
def test_an_encoder_that_lacks_weights_is_refused_and_none_are_drawn_at_random(
    run: Run, write: Write, here: Path, lacking: str
) -> None:
    from levelfield.models.resolve import OFFLINE_MODEL, resolve

    folder = Path(shutil.copytree(resolve(OFFLINE_MODEL).path, here / "broken"))
    weights = folder / "model.safetensors"
    kept = {name: t for name, t in load_file(weights).items() if not name.endswith(lacking)}
    save_file(kept, weights, {"format": "pt"})
    texts = write("t.jsonl", [TEXT | {"source": "It rained."}])
    complaint = run("score", texts, "-m", "cosine.source", "--model", folder).complaint
    assert "its weights lack" in complaint
    assert lacking in complaint
    from transformers.utils import logging

    assert logging.get_verbosity() == logging.ERROR  # its table of what is missing is not shown


@pytest.mark.parametrize(
    "choices", [{"labels": 5}, {"labels": None}, {"encoder": []}, {"revision": 0}, {"layers": "x"}]
)
def test_a_judge_whose_configuration_is_of_other_types_is_refused(
    run: Run, write: Write, here: Path, choices: dict[str, Any]
) -> None:
    from levelfield.models.resolve import resolve

    folder = Path(shutil.copytree(resolve("offline/sentiment").path, here / "broken"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | choices))
    words = ("-m", "control.average", "-o", f"judges={folder}")
    complaint = run("score", write("t.jsonl", [TEXT]), *words).complaint
    assert "model 'broken' can't be loaded: " in complaint


def test_a_folder_that_is_no_model_is_not_read_through(
    refuses: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.models import resolve

    (here / "home").mkdir()
    (here / "home" / "diary.txt").write_text("Nothing happened.")

    def read(path: Path) -> str:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(resolve, "sha256", read)
    assert "has no config.json" in refuses(here / "home")


def test_a_published_list_that_can_not_be_had_gets_one_line(
    refuses: Any, tiny_folders: Folders, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEVELFIELD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    said = refuses(tiny_folders["pegasus"])
    assert "can't be downloaded" in said
    assert "$LEVELFIELD_DATA/ctrleval/" in said


def damage_cut(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:-100])


def damage_header(weights: Path) -> None:
    weights.write_bytes(b"\xff" * 8 + weights.read_bytes()[8:])


def damage_empty(weights: Path) -> None:
    weights.write_bytes(b"")


def damage_lacking(weights: Path) -> None:
    kept = {n: t for n, t in load_file(weights).items() if "decoder.layers.1.fc1" not in n}
    save_file(kept, weights, {"format": "pt"})


def damage_shape(weights: Path) -> None:
    tensors = load_file(weights)
    name = next(n for n in tensors if n.endswith("layers.1.fc1.weight"))
    save_file(tensors | {name: torch.zeros(3, 3)}, weights, {"format": "pt"})


def damage_nan(weights: Path) -> None:
    tensors = {n: torch.full_like(t, torch.nan) for n, t in load_file(weights).items()}
    save_file(tensors, weights, {"format": "pt"})


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage_cut),
        pytest.param(damage_header),
        pytest.param(damage_empty),
        pytest.param(damage_lacking),
        damage_shape,
    ],
)
def test_a_folder_whose_weights_are_damaged_is_refused(
    refuses: Any, pegasus: Path, damage: Any
) -> None:
    damage(pegasus / "model.safetensors")
    assert "model 'model'" in refuses(pegasus, "-o", "iwf=wordfreq")


def test_weights_that_are_no_numbers_never_give_a_value(
    run: Run, write: Write, pegasus: Path
) -> None:
    damage_nan(pegasus / "model.safetensors")
    options = ("--model", pegasus, "-o", "iwf=wordfreq")
    complaint = run("score", write("t.jsonl", [TEXT]), "-m", "ctrleval", *options).complaint
    assert "its weights" in complaint
    assert "are not all finite numbers" in complaint


@pytest.mark.parametrize("file", ["tokenizer.json", "model.safetensors"])
def test_a_folder_without_one_of_its_files_is_refused(
    refuses: Any, pegasus: Path, file: str
) -> None:
    (pegasus / file).unlink()
    assert "model 'model'" in refuses(pegasus, "-o", "iwf=wordfreq")


SMALL: dict[str, Any] = {"vocab_size": 400}


def causal(folder: Path) -> None:
    GPT2LMHeadModel(GPT2Config(**SMALL, n_embd=8, n_layer=1, n_head=1)).save_pretrained(folder)


def classifier(folder: Path) -> None:
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    BertForSequenceClassification(BertConfig(**SMALL, **size, intermediate_size=8)).save_pretrained(
        folder
    )


def encoder_decoder_classifier(folder: Path) -> None:
    config = BartConfig.from_pretrained(folder)
    BartForSequenceClassification(config).save_pretrained(folder)


@pytest.mark.parametrize(
    ("family", "save", "said"),
    [
        ("pegasus", causal, "is a causal model"),
        ("pegasus", classifier, "is a classifier model"),
        pytest.param("bart", encoder_decoder_classifier, "is a classifier model"),
    ],
)
def test_a_model_of_another_kind_is_refused_and_its_kind_is_named(
    refuses: Any, tiny_folders: Folders, here: Path, family: str, save: Any, said: str
) -> None:
    folder = Path(shutil.copytree(tiny_folders[family], here / "other"))
    (folder / "model.safetensors").unlink()
    save(folder)
    assert said in refuses(folder, "-o", "iwf=wordfreq")


def test_pickled_weights_are_taken_only_from_those_who_ask_for_them(
    run: Run, write: Write, refuses: Any, pegasus: Path
) -> None:
    texts = write("t.jsonl", [TEXT])
    options = ("-m", "ctrleval", "-o", "iwf=wordfreq", "--model", pegasus)
    assert run("score", texts, *options).code == 0
    safe = values()
    pickled(pegasus)
    shutil.move(pegasus, pegasus := pegasus.with_name("pickled"))
    assert "--allow-pickle" in refuses(pegasus)
    options = (*options[:-1], pegasus)
    ran = run("score", texts, *options, "--allow-pickle")
    assert ran.code == 0, ran.err
    assert values() == pytest.approx(safe)


@pytest.mark.parametrize("content", [b"", b"\x80\x04junk", b"\0" * 99, b"c__main__\nx\n."])
def test_pickled_weights_that_are_none_get_one_line(
    refuses: Any, pegasus: Path, content: bytes
) -> None:
    (pegasus / "model.safetensors").unlink()
    (pegasus / "pytorch_model.bin").write_bytes(content)
    said = refuses(pegasus, "--allow-pickle", "-o", "iwf=wordfreq")
    assert said.startswith("model 'model' can't be loaded: ")


@pytest.mark.slow
def test_pickled_weights_of_a_part_of_a_sentence_model_are_pickled_weights(
    refuses: Any, run: Run, write: Write, here: Path
) -> None:
    from levelfield.models.resolve import OFFLINE_MODEL, resolve

    folder = Path(shutil.copytree(resolve(OFFLINE_MODEL).path, here / "dense"))
    modules = json.loads((folder / "modules.json").read_text())
    dense = {
        "idx": len(modules),
        "name": str(len(modules)),
        "path": "9_Dense",
        "type": "sentence_transformers.models.Dense",
    }
    (folder / "modules.json").write_text(json.dumps([*modules, dense]))
    (folder / "9_Dense").mkdir()
    config = {"in_features": 384, "out_features": 384, "bias": False}
    config["activation_function"] = "torch.nn.modules.linear.Identity"
    (folder / "9_Dense" / "config.json").write_text(json.dumps(config))
    torch.save({"linear.weight": torch.eye(384)}, folder / "9_Dense" / "pytorch_model.bin")
    options = ("-m", "ctrleval.consistency", "--model", folder, "--allow-pickle")
    ran = run("score", write("t.jsonl", [TEXT]), *options)
    assert ran.code == 0, ran.err
    assert "--allow-pickle" in refuses(folder)


def test_code_that_comes_with_a_model_is_never_run(refuses: Any, here: Path) -> None:
    from levelfield.models.resolve import OFFLINE_MODEL, resolve

    folder = Path(shutil.copytree(resolve(OFFLINE_MODEL).path, here / "trojan"))
    (folder / "horse.py").write_text(f"open({str(here / 'ran')!r}, 'w')\nclass Horse: ...\n")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "horse.Horse"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert "model 'trojan'" in refuses(folder)
    assert not (here / "ran").exists()


def test_a_model_without_the_gap_token_is_refused_by_name(refuses: Any, pegasus: Path) -> None:
    tokenizer = pegasus / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace("<mask_1>", "<mask_x>"))
    said = refuses(pegasus, "-o", "iwf=wordfreq")
    assert "<mask_1>" in said
    assert "model" in said
