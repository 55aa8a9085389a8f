"""Formulas: LaTeX on the pages, MathML on the site. Browsers draw MathML by themselves."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

from tools.website.pages import WebsiteError

_BLOCK = re.compile(r"^(?P<indent> *)```math\n(?P<latex>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"\$`([^`]+)`\$")
_SPACES = {
    "<mi>log</mi>": '<mi>log</mi><mspace width="0.167em" />',
    "<mrow><mo>&#x0003C;</mo>": '<mrow><mo lspace="0" rspace="0">&#x0003C;</mo>',
}
"""Elements of the converter -> the same with the space that TeX gives them."""


def with_formulas(text: str, page: str) -> str:
    """Returns a page with MathML for each block ```` ```math ```` and each inline formula.

    Raises:
        WebsiteError: a formula is not LaTeX.
    """

    def block(match: re.Match[str]) -> str:
        mathml = _mathml(match["latex"], "block", page)
        return f'{match["indent"]}<span class="formula">{mathml}</span>'

    text = _BLOCK.sub(block, text)
    return _INLINE.sub(lambda match: _mathml(match[1], "inline", page), text)


def _mathml(latex: str, display: str, page: str) -> str:
    source = " ".join(latex.split())
    try:
        mathml: str = convert(source, display=display)
    except Exception as error:  # the converter has kinds of its own, and plain ones beside them
        raise WebsiteError(f"{page}: {source}: {type(error).__name__}: {error}") from None
    for sign, spaced in _SPACES.items():
        mathml = mathml.replace(sign, spaced)
    words = html.escape(source, quote=True)
    return mathml.replace("<math ", f'<math alttext="{words}" ', 1).replace("\n", " ")
