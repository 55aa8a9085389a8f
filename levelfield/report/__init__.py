"""The HTML page: one self-contained file that says what was measured and how far to trust it."""

from levelfield.report.page import Part, Report, ShownSample, render, write_page

__all__ = ["Part", "Report", "ShownSample", "render", "write_page"]
