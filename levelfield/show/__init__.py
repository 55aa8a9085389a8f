"""Shows results: HTML pages, each one self-contained file that says what was measured and how far
to trust it, and tables on a terminal."""

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazily

if TYPE_CHECKING:
    from levelfield.show.figures import plot
    from levelfield.show.page import (
        ScorePage,
        ShownSample,
        ValuePart,
        render,
        score_page,
        write_page,
    )

__all__ = ["ScorePage", "ShownSample", "ValuePart", "plot", "render", "score_page", "write_page"]

__getattr__ = lazily(
    __name__,
    {**dict.fromkeys(__all__, "levelfield.show.page"), "plot": "levelfield.show.figures"},
)
