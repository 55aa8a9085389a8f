"""Encoder-decoders that learn to rewrite from pairs."""

from dataclasses import dataclass

from levelfield.core.errors import UserError
from levelfield.core.options import Options, group, option
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.train.recipe import HeldOutOptions, Recipe, Stepwise, by_command


@dataclass(frozen=True)
class RewardSpec(Options):
    """Which rewards count, and how much."""

    style: float = option(
        0.0,
        "Weight of the judges' mean probability of the requested style.",
        least=0,
        flags=("--style-reward",),
    )
    judges: str = option(
        "", "Judges whose probability is rewarded, by name or folder.", flags=("--judge",),
        metavar="NAME",
    )  # fmt: skip
    content: float = option(
        0.0,
        "Weight of the metric of content, scaled so that its best value is 1.",
        least=0,
        flags=("--content-reward",),
    )
    metric: str = option(
        "bleu.references",
        "Metric of content: bleu.source compares with the source, bleu.references with the text "
        "of the pair.",
        flags=("--content",),
        metavar="METRIC",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.style and not self.judges:
            raise UserError("--style-reward needs a judge: --judge NAME or FOLDER")

    def __bool__(self) -> bool:
        return bool(self.style or self.content)


@dataclass(frozen=True)
class RewriterSpec(Stepwise):
    """How a rewriter is trained."""

    recipe: Recipe = group(by_command(400, 1e-3))
    start: str = option(
        "",
        "Encoder-decoder or rewriter to begin from, by name.",
        flags=("--model",),
        otherwise="a small copier",
        metavar="NAME",
    )
    batch: int = option(32, "Pairs per step.", least=1, most=65_536)
    rewards: RewardSpec = option(RewardSpec(), "Rewards of what the model writes.")
    judges: str = option(
        "",
        "Judges that say how often the style of held-out rewrites is right.",
        flags=("--tried-by",),
        metavar="NAME",
    )
    half: bool = option(False, "Save weights in half precision.")
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine"))


@dataclass(frozen=True)
class PairOptions(HeldOutOptions):
    """Which pairs of sentences a rewriter learns, and which are held out."""

    both_directions: bool = option(False, "Learn every pair in the other direction as well.")
    labels: tuple[str, ...] = option(
        (), "Style; may be given again.", flags=("--label",), otherwise="those of the pairs"
    )
