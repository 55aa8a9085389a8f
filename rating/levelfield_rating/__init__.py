"""The rating app: people's judgement of generated text, kept so that nothing is lost."""

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazily

if TYPE_CHECKING:
    from levelfield_rating.plan.file import schema

__all__ = ["schema"]

__getattr__ = lazily(__name__, {"schema": "levelfield_rating.plan.file"})
