"""Base of the techniques that compare the base with the base after a request."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.control_text import (
    SHIPPED_TEMPLATE,
    control_text,
    opposite,
    template_attributes,
    unspeakable,
)
from levelfield.generation.logits.readers import Prefix
from levelfield.generation.logits.terms import HelperLM
from levelfield.generation.table import controlled_by
from levelfield.generation.technique import LocalTechnique


@dataclass(frozen=True, kw_only=True)
class RequestTechnique(LocalTechnique, abc.ABC):
    """A technique that compares the base with the base after a text that asks for a control.

    Raises:
        UserError: the template has no place for a value.
    """

    needs_opposite: ClassVar[bool] = False
    template: str = option(
        "",
        "Text that asks for the control, with {ATTRIBUTE} in place of its value, such as "
        "`A {sentiment} review: `.",
        otherwise="the one that ships",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            places = template_attributes(self.template)
        except ValueError as error:
            raise UserError(f"template: {error}; write {{sentiment}} or {{{{ for a brace") from None
        if self.template and not places:
            raise UserError(
                f"template is '{self.template:.40}'; expected a place such as {{sentiment}}"
            )

    @property
    def choices(self) -> Mapping[str, str]:
        return {"template": self.template or f"shipped@{SHIPPED_TEMPLATE}"}

    def refusal(self, control: Control) -> str:
        if reason := unspeakable(control):
            return f"{self.name}: {reason}"
        if self.template and (places := template_attributes(self.template)) != control.keys():
            return (
                f"{self.name}: the template shows {', '.join(sorted(places))}, and the control has "
                f"{', '.join(sorted(control)) or 'nothing'}"
            )
        if self._asks_opposite:
            for attribute, value in control.items():
                if opposite(attribute, value) is None:
                    shown = value if isinstance(value, str) else ", ".join(value)
                    return (
                        f"{self.name}: no opposite of {attribute} '{shown}' is known; "
                        f"{controlled_by(attribute)}"
                    )
        return ""

    @property
    def _asks_opposite(self) -> bool:
        """Whether the opposite is asked for, too, so that each attribute needs one."""
        return self.needs_opposite

    def _asked(self, attributes: frozenset[str]) -> HelperLM:
        """log p of the base after the text that asks for the control."""
        return HelperLM(self.base, partial(self._request, attributes, False))

    def _asked_opposite(self, attributes: frozenset[str]) -> HelperLM:
        """log p of the base after the text that asks for the opposite."""
        return HelperLM(self.base, partial(self._request, attributes, True))

    def _request(self, attributes: frozenset[str], is_opposite: bool, control: Control) -> Prefix:
        values = {a: v for a, v in control.items() if a in attributes}
        if is_opposite:
            values = {a: opposite(a, v) or v for a, v in values.items()}
        return tuple(self.base.ids(control_text(values, self.template)))
