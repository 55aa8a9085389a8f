"""Wanted values of an attribute, as a sample's `control` holds them: one, several or none."""

from __future__ import annotations

Wanted = str | tuple[str, ...]


def wanted_values(wanted: Wanted) -> tuple[str, ...]:
    """Returns the values one by one.

    >>> wanted_values("positive"), wanted_values(("court", "culture"))
    (('positive',), ('court', 'culture'))
    """
    return (wanted,) if isinstance(wanted, str) else wanted


def single_value(wanted: Wanted) -> Wanted:
    """Returns the value of a group of one; anything else stays as it is.

    >>> single_value(("positive",)), single_value(("court", "culture"))
    ('positive', ('court', 'culture'))
    """
    return wanted if isinstance(wanted, str) or len(wanted) != 1 else wanted[0]


def wanted_name(wanted: Wanted) -> str:
    """Returns the values as one name.

    >>> wanted_name(("court", "culture"))
    'court, culture'
    """
    return ", ".join(wanted_values(wanted))
