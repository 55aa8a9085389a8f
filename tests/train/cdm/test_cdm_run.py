"""Algorithm 1 as one run: from a file to a discriminator, in one go or after kills."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from levelfield.core.errors import InputError, ModelError, UserError
from levelfield.train.cdm.plan import load_cdm_plan
from levelfield.train.cdm.stages import numbered, run_cdm

PLAN = """
corpus = ["chats.txt"]
sources = ["our own chats: CC0"]
device = "cpu"
seed = 3

[amateur]
start = "random"
width = 16
layers = 1
inner = 32
vocabulary = 330
steps = 6
every = 3
batch = 4

[expert]
start = "random"
width = 32
layers = 1
inner = 64
steps = 6
every = 3
batch = 4

[negatives]
strategy = "mixed-multi"
gamma = 0.5
max-tokens = 6
limit = 12

[discriminator]
steps = 4
every = 2
batch = 2
window = 32
"""


@pytest.fixture
def plan(tmp_path: Path, tiny_classifier_start: Path) -> Path:
    chats = [
        f"Did you feed the {pet}?</UTT>Yes, at {hour}.</UTT>Good. The {pet} looks {how}."
        for pet in ("dog", "goose", "newt")
        for hour in ("six", "noon")
        for how in ("happy", "smug", "asleep")
    ]
    (tmp_path / "chats.txt").write_text("\n".join(chats), encoding="utf-8")
    file = tmp_path / "plan.toml"
    text = PLAN.replace(
        "[discriminator]\n", f'[discriminator]\nstart = "{tiny_classifier_start}"\n'
    )
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def tiny_classifier_start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog", "goose", "newt", "yes", "good"]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@contextlib.contextmanager
def silent(_what: str, _total: int | None) -> Iterator[Callable[[int], object]]:
    yield lambda _: None


def files(folder: Path) -> dict[str, bytes]:
    names = ("model.safetensors", "negatives.jsonl", "tokenizer.json")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.name in names
    }


class Killed(BaseException):
    """Stands for a kill."""


@pytest.mark.slow
def test_the_whole_runs_and_a_run_that_was_killed_gives_the_same(plan, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    notes: list[str] = []
    history = run_cdm(load_cdm_plan(plan), whole, notes=notes.append, bar=silent)
    assert 0 <= history[-1].validation["accuracy"] <= 1
    assert {"amateur", "expert", "negatives.jsonl", "discriminator"} <= {
        path.name for path in whole.iterdir()
    }
    assert "12 texts manipulated" in " ".join(notes)

    for stage in ("amateur", "expert", "negatives", "discriminator"):

        @contextlib.contextmanager
        def breaking(task: str, _total: int | None) -> Iterator[Callable[[int], object]]:
            def progress(n: int) -> None:
                if task == stage and n:  # noqa: B023
                    raise Killed

            yield progress

        with pytest.raises(Killed):
            run_cdm(load_cdm_plan(plan), killed, notes=notes.append, bar=breaking)
    run_cdm(load_cdm_plan(plan), killed, notes=notes.append, bar=silent)
    assert files(whole) == files(killed)
    before = files(whole)
    run_cdm(load_cdm_plan(plan), whole, notes=notes.append, bar=silent)
    assert files(whole) == before


def test_without_gamma_no_expert_is_trained(plan, tmp_path):
    plan.write_text(plan.read_text().replace("gamma = 0.5", "gamma = 0"))
    run_cdm(load_cdm_plan(plan), tmp_path / "out", notes=lambda _: None, bar=silent)
    assert not (tmp_path / "out" / "expert").exists()
    assert (tmp_path / "out" / "discriminator" / "README.md").exists()


def test_models_of_two_vocabularies_are_refused(plan, tmp_path, tiny_folders):
    text = plan.read_text()
    begin, end = text.index("[expert]"), text.index("[negatives]")
    plan.write_text(f'{text[:begin]}[expert]\nmodel = "{tiny_folders["t5"]}"\n\n{text[end:]}')
    with pytest.raises(ModelError, match="vocabular"):
        run_cdm(load_cdm_plan(plan), tmp_path / "out", notes=lambda _: None, bar=silent)


def test_all_mistakes_of_a_plan_are_named_at_once(tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text(
        'corpus = ["nowhere.txt"]\ncolour = 1\n[amateur]\nmodel = "a"\nsteps = 3\n'
        '[negatives]\ngamma = -1\nstrategy = "amr-multi"\nunit = "verses"\n'
    )
    with pytest.raises(InputError) as caught:
        load_cdm_plan(file)
    message = str(caught.value)
    for part in ("nowhere.txt", "colour", "use start", "gamma", "locator 'amr'", "verses"):
        assert part in message
    with pytest.raises(UserError, match="can't be read"):
        load_cdm_plan(tmp_path / "none.toml")
    file.write_text("corpus = [")
    with pytest.raises(UserError, match="not a TOML file"):
        load_cdm_plan(file)


def test_texts_are_cut_into_turns_or_sentences():
    text = "It rained.\nIt stopped. We left."
    assert list(numbered([text], "turns", None)) == [("0", ("It rained.", "It stopped. We left."))]
    assert list(numbered([text], "sentences", None)) == [
        ("0", ("It rained.", "It stopped.", "We left."))
    ]
    assert len(list(numbered(["a"] * 5, "turns", 3))) == 3
