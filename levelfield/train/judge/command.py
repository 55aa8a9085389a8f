"""The words of `levelfield train judge`: what they mean, and which of them contradict."""

# Annotations stay objects here, since options are read from them.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from levelfield.core.errors import UserError
from levelfield.core.limits import SEED
from levelfield.core.options import choices, group, option
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.train.judge import ARCHITECTURES, JudgeSpec
from levelfield.train.recipe import HeldOutOptions

if TYPE_CHECKING:
    from levelfield.core.sample import Sample
    from levelfield.train.labelled import LabelledTexts, RatingScale


@dataclass(frozen=True)
class JudgeOptions(HeldOutOptions):
    """What `levelfield train judge` learns from, and how."""

    recipe: str | None = option(
        None,
        "Recipe to follow instead of FILEs: data sets and settings by name; --model names "
        "another encoder for it, --layers and --depth what a linear head reads of it, and "
        "--learning-rate its learning rate.",
        metavar="NAME",
    )
    attribute: str | None = option(
        None, "Attribute whose labels are learnt: control.ATTRIBUTE of the samples.", metavar="NAME"
    )
    arch: str | None = option(
        None, "Architecture of the judge.", among=tuple(ARCHITECTURES), otherwise="textcnn"
    )
    share: float | None = option(
        None,
        "Share of the texts to test the judge on, if no file is held out.",
        above=0,
        below=1,
        otherwise="0.1",
    )
    rating: str | None = option(
        None, "Learn from ratings of this aspect, not from labels.", metavar="ASPECT"
    )
    low: str | None = option(None, "Label of the lowest rating.", otherwise="low")
    high: str | None = option(None, "Label of the highest rating.", otherwise="high")
    ends: tuple[float, ...] | None = option(
        None,
        "Lowest and highest rating.",
        flags=("--range",),
        otherwise="those in the texts",
    )
    settings: Mapping[str, Any] = option({}, "Settings of the architecture.")
    seed: int = option(
        0, "Seed of weights, of batches, and of the choice of what is held out.", least=0, most=SEED
    )
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ends is not None and len(self.ends) != 2:
            raise UserError(f"ends={self.ends!s:.60}: expected the lowest and the highest rating")

    def spec(self, files: Sequence[str]) -> JudgeSpec:
        """Returns what to train.

        Raises:
            UserError: options that contradict, or are none of this recipe or architecture.
        """
        if bool(self.recipe) == bool(files):
            raise UserError("expected either FILEs with labels or --recipe NAME")
        spec = self._by_recipe(self.recipe) if self.recipe else self._by_files()
        return spec.replace(seed=self.seed, device=self.loading.device)

    def texts(self, files: Sequence[str]) -> "LabelledTexts":
        """Returns what to train and test on.

        Raises:
            UserError, InputError: files that can't be read, samples without a label or rating.
            FetchError: a set of the recipe can't be fetched.
        """
        from levelfield.train.judge import recipes
        from levelfield.train.labelled import from_controls, from_ratings, own_texts

        if self.recipe:
            return recipes.texts_of(self.recipe)
        samples = self.samples(files)
        held_out = self.samples(self.held_out) if self.held_out else None
        if self.rating:
            scale = self._scale(samples, self.rating)
            rows = from_ratings(samples, scale)
            test = from_ratings(held_out, scale) if held_out is not None else None
        else:
            attribute = self.attribute or ""
            rows = from_controls(samples, attribute)
            test = from_controls(held_out, attribute, rows.labels) if held_out is not None else None
        return own_texts(rows, test, (), share=self.share or 0.1, seed=self.seed)

    def _by_recipe(self, name: str) -> JudgeSpec:
        """Returns the spec of a recipe, which sets everything except the seed and the encoder."""
        from levelfield.train.judge import recipes

        with_model = ("start", "learning_rate", "layers", "depth", "allow_pickle")
        for key in self._stated:
            if key not in with_model:
                raise UserError(f"--recipe already says what {_flag(key)} would: leave one out")
        spec, settings = recipes.spec_of(name), self._stated
        if "start" not in settings:
            if settings:
                flag = _flag(next(iter(settings)))
                raise UserError(f"{flag} beside --recipe requires another --model NAME")
            return spec
        if not spec.outline.on_encoder:
            raise UserError(f"--model is the encoder, and {name} has none")
        for key in settings:
            if key not in spec.outline.options:
                raise UserError(f"{_flag(key)} does not apply to {name}")
        return spec.with_settings(settings)

    def _by_files(self) -> JudgeSpec:
        if self.held_out and self.share is not None:
            raise UserError("--share applies only if no file is held out; leave out --held-out")
        if not self.rating:
            for key in ("low", "high", "ends"):
                if key in self._stated:
                    raise UserError(f"{_flag(key)} is for ratings: it requires --rating ASPECT")
        name = self.arch or "textcnn"
        declared = {key for outline in ARCHITECTURES.values() for key in outline.options}
        settings = {key: value for key, value in sorted(self._stated.items()) if key in declared}
        for key in settings:
            if key not in ARCHITECTURES[name].options:
                raise UserError(f"{_flag(key)} is not an option of --arch {name}")
        attribute = self.attribute or self.rating
        if not attribute:
            raise UserError("expected --attribute NAME: the attribute whose labels are learnt")
        return JudgeSpec(attribute, name).with_settings(settings)

    @property
    def _stated(self) -> dict[str, Any]:
        """The settings that the user chose, except seed and device."""
        apart = ("settings", "seed", "device", "recipe")
        values = {key: value for key, value in self.to_dict().items() if key not in apart}
        stated = {key: value for key, value in values.items() if value not in (None, (), {}, False)}
        return {**stated, **self.settings}

    def _scale(self, samples: "Sequence[Sample]", aspect: str) -> "RatingScale":
        from levelfield.train.labelled import RatingScale

        values = [value for s in samples for value in s.ratings.get(aspect, {}).values()]
        if not values:
            raise UserError(
                f"no sample has a rating of {aspect} (--map ratings.{aspect}=COLUMN names your "
                "column)"
            )
        least, most = self.ends or (min(values), max(values))
        return RatingScale(aspect, self.low or "low", self.high or "high", least, most)


def _flag(key: str) -> str:
    """Returns an option as users write it."""
    for cls in (JudgeOptions, JudgeSpec):
        if key in choices(cls):
            return choices(cls)[key].flags[0]
    return f"--{key.replace('_', '-')}"
