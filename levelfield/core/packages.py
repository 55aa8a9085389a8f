"""Packages beside this one, as signatures name them."""

from __future__ import annotations

from importlib import metadata

from levelfield.core.errors import UserError


def installed_label(package: str, mend: str) -> str:
    """Returns a package with its version, as in `click-8.2.1`.

    Raises:
        UserError: it is not installed; the message is `mend`.
    """
    try:
        return f"{package}-{metadata.version(package)}"
    except metadata.PackageNotFoundError as error:
        raise UserError(mend) from error
