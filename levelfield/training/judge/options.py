"""The words of `levelfield train judge`: what they mean, and which of them contradict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import open_samples
from levelfield.training.judge import recipes
from levelfield.training.judge.architectures import ARCHITECTURES, architecture_named
from levelfield.training.judge.spec import JudgeSpec
from levelfield.training.labelled import (
    LabelledTexts,
    RatingScale,
    from_controls,
    from_ratings,
    own_texts,
)


@dataclass(frozen=True)
class JudgeOptions:
    """The options of the command, by the same names; None and empty where nothing is said.

    Attributes:
        ends: `--range`.
        mapping: `--map`.
    """

    recipe: str | None = None
    attribute: str | None = None
    arch: str | None = None
    held_out: tuple[str, ...] = ()
    share: float | None = None
    rating: str | None = None
    low: str | None = None
    high: str | None = None
    ends: tuple[float, float] | None = None
    format: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    epochs: int | None = None
    vocabulary: int | None = None
    case: bool = False
    half: bool = False
    ngrams: int | None = None
    quantize: bool = False
    model: str | None = None
    learning_rate: float | None = None
    l2: float | None = None
    seed: int = 0
    device: str = "auto"
    allow_pickle: bool = False

    def spec(self, files: Sequence[str]) -> JudgeSpec:
        """What to train.

        Raises:
            UserError: options that contradict, or are none of this recipe or architecture.
        """
        if bool(self.recipe) == bool(files):
            raise UserError("expected either FILEs with labels or --recipe NAME")
        return self._of_recipe(self.recipe) if self.recipe else self._of_files()

    def texts(self, files: Sequence[str]) -> LabelledTexts:
        """What to train and test on.

        Raises:
            UserError, InputError: files that can't be read, samples without a label or rating.
            FetchError: a set of the recipe can't be fetched.
        """
        if self.recipe:
            return recipes.texts_of(self.recipe)
        samples = self._read(files)
        others = self._read(self.held_out) if self.held_out else None
        if self.rating:
            scale = self._scale(samples, self.rating)
            rows = from_ratings(samples, scale)
            test = from_ratings(others, scale) if others is not None else None
        else:
            attribute = self.attribute or ""
            rows = from_controls(samples, attribute)
            test = from_controls(others, attribute, rows.labels) if others is not None else None
        return own_texts(rows, test, (), share=self.share or 0.1, seed=self.seed)

    def _of_recipe(self, name: str) -> JudgeSpec:
        """The spec of a recipe, which says everything but the seed and the encoder."""
        for option in FOR_FILES:
            if self._says(option):
                raise UserError(f"--recipe says what --{_written(option)} would: leave one out")
        spec = dataclasses.replace(recipes.spec_of(name), seed=self.seed, device=self.device)
        if not self.model:
            for option in ("learning_rate", "allow_pickle"):
                if self._says(option):
                    raise UserError(
                        f"--{_written(option)} beside --recipe is of another --model NAME"
                    )
            return spec
        architecture = architecture_named(spec.architecture)
        if not architecture.on_encoder:
            raise UserError(f"--model is the encoder, and {name} has none")
        spec = dataclasses.replace(spec, start=self.model, allow_pickle=self.allow_pickle)
        if not self.learning_rate:
            return spec
        if "learning_rate" not in architecture.options:
            raise UserError(f"--learning-rate says nothing to {name}")
        return spec.with_settings({"learning_rate": self.learning_rate})

    def _of_files(self) -> JudgeSpec:
        if self.held_out and self.share is not None:
            raise UserError(
                "--share is of the texts where no file is held out; leave out --held-out"
            )
        if not self.rating:
            for option in ("low", "high", "ends"):
                if self._says(option):
                    raise UserError(f"--{_written(option)} is of ratings: it needs --rating ASPECT")
        name = self.arch or "textcnn"
        own = architecture_named(name).options
        every = {o for known in ARCHITECTURES for o in architecture_named(known).options}
        settings = sorted(option for option in every if self._says(option))
        if foreign := [option for option in settings if option not in own]:
            raise UserError(f"--{_written(foreign[0])} is no option of --arch {name}")
        attribute = self.attribute or self.rating
        if not attribute:
            raise UserError("expected --attribute NAME: whose labels are learnt")
        spec = JudgeSpec(attribute, name, seed=self.seed, device=self.device)
        return spec.with_settings(
            {"start" if o == "model" else o: getattr(self, o) for o in settings}
        )

    def _says(self, option: str) -> bool:
        return getattr(self, option) not in (None, (), {}, False)

    def _read(self, files: Sequence[str]) -> list[Sample]:
        source = open_samples(files, format=self.format, mapping=self.mapping, ids="any")
        source.check()
        return list(source)

    def _scale(self, samples: Sequence[Sample], aspect: str) -> RatingScale:
        values = [value for s in samples for value in s.ratings.get(aspect, {}).values()]
        if not values:
            raise UserError(
                f"no sample has a rating of {aspect} (--map ratings.{aspect}=COLUMN names your "
                "column)"
            )
        least, most = self.ends or (min(values), max(values))
        return RatingScale(aspect, self.low or "low", self.high or "high", least, most)


FOR_FILES = (
    "attribute", "arch", "held_out", "share", "rating", "low", "high", "ends", "format", "mapping",
    "epochs", "vocabulary", "case", "half", "ngrams", "quantize", "l2",
)  # fmt: skip
"""Options of which a recipe says what they would."""
_WRITTEN = {"ends": "range", "mapping": "map"}


def _written(option: str) -> str:
    """An option as users write it."""
    return _WRITTEN.get(option, option.replace("_", "-"))
