"""Formulas: LaTeX on the pages, MathML on the site. Browsers draw MathML by themselves."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

from tools.website.pages import WebsiteError

_BLOCK = re.compile(r"^(?P<indent> *)```math\n(?P<latex>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"\$`([^`]+)`\$")


def with_formulas(text: str, page: str) -> str:
    """Returns a page with MathML for each block ```` ```math ```` and each inline formula.

    Raises:
        WebsiteError: a formula is not LaTeX.
    """

    def block(match: re.Match[str]) -> str:
        return (
            f'{match["indent"]}<div class="formula">{_mathml(match["latex"], "block", page)}</div>'
        )

    text = _BLOCK.sub(block, text)
    return _INLINE.sub(lambda match: _mathml(match[1], "inline", page), text)


def _mathml(latex: str, display: str, page: str) -> str:
    source = " ".join(latex.split())
    try:
        mathml: str = convert(source, display=display)
    except Exception as error:  # the converter has kinds of its own, and plain ones beside them
        raise WebsiteError(f"{page}: {source}: {type(error).__name__}: {error}") from None
    words = html.escape(source, quote=True)
    return mathml.replace("<math ", f'<math alttext="{words}" ', 1).replace("\n", " ")
