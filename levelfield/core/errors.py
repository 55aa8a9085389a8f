"""Errors that are raised on purpose: where, what was expected, and the mend, in one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, cut if it is long.

    It is the name of the error's class if there is no message.
    """
    try:
        message = str(error).strip()
    except Exception:  # of a third party's class
        message = ""
    return (message.splitlines() or [type(error).__name__])[0][:300]


class LevelfieldError(Exception):
    """Base of all errors raised on purpose. `exit_code` is what the command line exits with."""

    exit_code = 1


class UserError(LevelfieldError):
    """Something the user named is wrong: an option, a metric, a file that does not exist."""

    exit_code = 2


class ModelError(UserError):
    """A model is not available, or is of the wrong kind for its use."""


class InputError(UserError):
    """Input that can't be read as samples; carries every problem found, not only the first."""

    def __init__(self, problems: Sequence[str], *, total: int | None = None) -> None:
        self.problems = tuple(problems)
        self.total = len(self.problems) if total is None else total
        more = self.total - len(self.problems)
        lines = [*self.problems, *([f"… and {more:,} more problems"] if more > 0 else [])]
        super().__init__("\n".join(lines))


def with_extra(extra: str) -> str:
    """Returns what messages advise where packages of an extra are missing; it is true of a clone, a
    wheel and a package index."""
    return f"install levelfield with the extra {extra}"


_PACKAGES_OF_MODELS = (
    "google",
    "huggingface_hub",
    "ot",
    "safetensors",
    "sentence_transformers",
    "sentencepiece",
    "tokenizers",
    "torch",
    "transformers",
    "wordfreq",
)


def missing_package_of_models(error: BaseException) -> ModelError | None:
    """Returns what to install if an error says that a package of the extra `models` is missing."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    package = (error.name or "").partition(".")[0]
    if package not in _PACKAGES_OF_MODELS:
        return None
    return ModelError(f"this reads models, and {package} is not installed: {with_extra('models')}")


@contextlib.contextmanager
def models_needed() -> Iterator[None]:
    """Says what to install if a package of the extra `models` is missing.

    Raises:
        ModelError: in place of the `ModuleNotFoundError` of such a package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        lack = missing_package_of_models(error)
        if lack is None:
            raise
        raise lack from error
