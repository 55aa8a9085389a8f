"""Each choice of each trained kind has one range, in Python and on the command line; models that
were finished before are recognised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from levelfield.cli.options import DeclaredOption
from levelfield.cli.train import train
from levelfield.core.errors import UserError
from levelfield.core.options import Declaration, Options, Unfit, choices
from levelfield.generation.techniques._class_lm.settings import ClassLMSettings
from levelfield.generation.techniques.cbart.editor_options import EditorSize, EditorSpec
from levelfield.generation.techniques.rewriter.rewriter_options import (
    PairOptions,
    RewardSpec,
    RewriterSpec,
)
from levelfield.models.loading import Loading
from levelfield.models.small.shapes import Settings, Shape
from levelfield.train.builder import opened, run_of
from levelfield.train.cdm import PerturbOptions
from levelfield.train.cdm.plan import NegativesPlan
from levelfield.train.discriminator import DiscriminatorSpec
from levelfield.train.guide.kinds import GuideSpec
from levelfield.train.guide.settings import GuideData
from levelfield.train.guide.table import SETTINGS, settings_of
from levelfield.train.infiller import InfillerSpec, Size
from levelfield.train.judge import JudgeSpec, Tuning
from levelfield.train.judge.command import JudgeOptions
from levelfield.train.recipe import HeldOutOptions, Recipe

KINDS: dict[str, tuple[type[Options], ...]] = {
    "infiller": (InfillerSpec, Size, Recipe),
    "editor": (EditorSpec, EditorSize, Recipe),
    "rewriter": (RewriterSpec, RewardSpec, PairOptions, HeldOutOptions, Recipe),
    "perturb": (PerturbOptions,),
    "discriminator": (DiscriminatorSpec, Size, Recipe),
    "cdm": (NegativesPlan,),
    "judge": (JudgeSpec, JudgeOptions, Tuning, Shape, Settings),
    "guide": (GuideSpec, GuideData, *SETTINGS.values()),
}
NEEDED: dict[type[Options], dict[str, Any]] = {
    Recipe: {"steps": 1},
    Size: {"width": 8, "layers": 1},
    GuideSpec: {"kind": "future", "attribute": "mood"},
    JudgeSpec: {"attribute": "mood", "architecture": "linear"},
}


def outside(choice: Declaration) -> Iterator[object]:
    """Values that a choice with a range, or of names, does not accept."""
    rule = choice.rule
    if rule.least is not None:
        yield type(rule.least)(rule.least - 1)
    if rule.most is not None:
        yield rule.most + 1
    yield from (bound for bound in (rule.above, rule.below) if bound is not None)
    if choice.names:
        yield "no-such-name"
    if rule.fits is not None:
        yield 17


def is_refused(choice: Declaration, value: object) -> bool:
    try:
        choice.check_item(value)
    except Unfit:
        return True
    return False


CASES = {
    f"{kind} {cls.__name__}.{choice.name} {value}": (kind, cls, choice, value)
    for kind, classes in KINDS.items()
    for cls in classes
    for choice in choices(cls).values()
    if len(choice.path) == 1  # those of groups are tried where they are declared
    for value in outside(choice)
}


def test_values_outside_are_refused_in_python_and_on_the_command_line(subtests: pytest.Subtests):
    for case, details in CASES.items():
        with subtests.test(case=case):
            check_refusal(*details)


def check_refusal(kind: str, cls: type[Options], choice: Declaration, value: object) -> None:
    item = (value,) if choice.is_list else value
    with pytest.raises(UserError) as refused:
        cls(**{**NEEDED.get(cls, {}), choice.name: item})
    assert f"{choice.name}=" in str(refused.value)
    words = "expected a whole number" if choice.is_list else f"expected {choice.expected}"
    assert words in str(refused.value)
    command = train.commands[kind]
    for option in command.params:
        if isinstance(option, DeclaredOption) and option.choice.name == choice.name:
            if option.choice.path != choice.path and option.owner is not cls:
                continue
            if not all(is_refused(other, value) for other in option.type.choices):
                continue  # another kind accepts it; this one refuses it below
            with pytest.raises(click.BadParameter) as mistyped:
                option.type.convert(str(value), option, click.Context(command))
            assert f"expected {option.choice.expected}" in mistyped.value.message
    for name in (name for name, settings in SETTINGS.items() if settings is cls):
        with pytest.raises(UserError, match=f"guide: option {choice.name}={value}: expected"):
            settings_of(name, {choice.name: str(value)})


# -- records of models that were trained before choices were declared


RECIPE = {
    "steps": 4, "learning_rate": 0.001, "warmup": 2, "decay": 0.5, "weight_decay": 0.01,
    "embeddings": 1.0, "clip": 1.0, "seed": 0, "precision": "float32", "every": 2,
}  # fmt: skip
DISCRIMINATOR = {
    "recipe": RECIPE, "start": "",
    "size": {"width": 16, "layers": 1, "inner": 32, "head": 8},
    "vocabulary": 330, "batch": 4, "window": 32, "keep": "end", "allow_pickle": False,
}  # fmt: skip
INFILLER = {
    "recipe": {**RECIPE, "embeddings": 15.0}, "family": "t5", "start": "",
    "size": {"width": 80, "layers": 3, "inner": 240, "head": 16},
    "vocabulary": 8192, "tokenizer": "", "batch": 32, "window": 96, "half": False,
}  # fmt: skip
JUDGE = {
    "attribute": "mood", "architecture": "textcnn", "seed": 0, "case": False,
    "shape": {"dimension": 100, "widths": [3, 4, 5], "channels": 100, "dropout": 0.5},
    "vocabulary": 20000, "epochs": 1, "batch": 64, "learning_rate": 0.001, "half": False,
    "fasttext": {
        "dimension": 16, "ngrams": 2, "buckets": 200000, "epochs": 10, "learning_rate": 0.3,
        "least_often": 2, "hierarchical": False, "quantize": False,
    },
    "tuning": {"epochs": 3.0, "batch": 16, "learning_rate": 0.0001},
    "start": "", "layers": 7, "l2": 0.3, "allow_pickle": False,
}  # fmt: skip
REWRITER = {
    "recipe": RECIPE, "start": "", "batch": 32,
    "rewards": {"style": 0.0, "judges": "", "content": 0.0, "metric": "bleu.references"},
    "judges": "", "half": False, "allow_pickle": True,
}  # fmt: skip
SHORT = Recipe(steps=4, every=2, warmup=2)
SPECS = {
    "discriminator": (
        DISCRIMINATOR,
        DiscriminatorSpec(SHORT, "", Size(16, 1, 32, 8), 330, 4, 32, loading=Loading("cpu")),
    ),
    "infiller": (
        INFILLER,
        InfillerSpec.of(
            steps=4, every=2, warmup=2, learning_rate=1e-3, width=80, head=None, device="cpu"
        ).settled(on_gpu=False),
    ),
    "judge": (JUDGE, JudgeSpec("mood", "textcnn", epochs=1, loading=Loading("cuda:1"))),
    "rewriter": (REWRITER, RewriterSpec(SHORT, loading=Loading("mps", allow_pickle=True))),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_model_that_was_finished_before_is_still_this_one(name: str, tmp_path: Path):
    record, spec = SPECS[name]
    row = {"step": 4, "loss": 1.5, "validation": {}, "seconds": 2.0}
    document = {"spec": record, "data": "abc", "history": [row]}
    (tmp_path / "training.json").write_text(json.dumps(document))
    history = opened(tmp_path, run_of(spec, "abc"))
    assert history is not None
    assert history[0].loss == 1.5
    with pytest.raises(UserError, match="holds no run of this kind"):
        opened(tmp_path, run_of(spec, "abd"))


def test_settings_are_written_into_identities_of_checkpoints_as_before():
    assert str(ClassLMSettings(layers=1)) == (
        "ClassLMSettings(lam=0.8, layers=1, rank=8, tokens=48, epochs=1.0, batch=16, "
        "learning_rate=0.001)"
    )
    assert str(SHORT) == (
        "Recipe(steps=4, learning_rate=0.001, warmup=2, decay=0.5, weight_decay=0.01, "
        "embeddings=1.0, clip=1.0, seed=0, precision='float32', every=2)"
    )


def test_what_is_left_to_the_machine_is_settled():
    recipe = InfillerSpec().settled(on_gpu=True).recipe
    assert (recipe.warmup, recipe.embeddings, recipe.precision) == (100, 15.0, "bfloat16")
    recipe = EditorSpec.of(steps=40).settled(on_gpu=False).recipe
    assert (recipe.warmup, recipe.embeddings, recipe.precision) == (2, 1.0, "float32")
    assert InfillerSpec.of(start="x").settled(on_gpu=False).recipe.embeddings == 1.0
    with pytest.raises(UserError, match="--width 20: expected a multiple of 8"):
        InfillerSpec.of(width=20).settled(on_gpu=False)
    options = JudgeOptions(attribute="mood", arch="linear", settings={"l2": 0.0})
    assert options.spec(["texts.jsonl"]).l2 == 0.0
