"""The HTML page: one self-contained file that says what was measured and how far to trust it."""

from levelfield.report.page import ScorePage, ShownSample, ValuePart, render, score_page, write_page

__all__ = ["ScorePage", "ShownSample", "ValuePart", "render", "score_page", "write_page"]
