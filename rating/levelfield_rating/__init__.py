"""The rating app: people's judgement of generated text, kept so that nothing is lost."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield_rating.plan.file import schema

__all__ = ["schema"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'levelfield_rating' has no attribute '{name}'")
    from levelfield_rating.plan import file

    return getattr(file, name)
