"""Whether the Hugging Face hub can be asked: known at once, and said by us alone."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import time
from collections.abc import Iterator
from functools import partial

from levelfield.io.http import within

_PATIENCE_S = 5.0
_REMEMBERED_S = 60.0


def hub_answers() -> bool:
    """Whether the hub answers; False where `HF_HUB_OFFLINE` is set. An answer holds a minute."""
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and _answers(int(time.monotonic() // _REMEMBERED_S))


@functools.lru_cache(maxsize=1)
def _answers(_minute: int) -> bool:
    from huggingface_hub import constants, get_session

    try:
        head = partial(get_session().head, constants.ENDPOINT, timeout=_PATIENCE_S)
        within(2 * _PATIENCE_S, head)
    except Exception:  # of whatever library `huggingface_hub` asks with
        return False
    return True


@contextlib.contextmanager
def asking_the_hub() -> Iterator[None]:
    """Lets `huggingface_hub` and `datasets` ask the hub if it answers, without warnings of their
    own; else they take what is on this machine, without trying for half a minute."""
    loggers = [logging.getLogger(name) for name in ("huggingface_hub", "datasets")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with contextlib.nullcontext() if hub_answers() else without_the_hub():
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def without_the_hub() -> Iterator[None]:
    """Has `huggingface_hub` and `datasets` take what is on this machine."""
    from huggingface_hub import constants

    switches = [vars(constants), *map(vars, filter(None, [sys.modules.get("datasets.config")]))]
    were = [switch["HF_HUB_OFFLINE"] for switch in switches]
    try:
        for switch in switches:
            switch["HF_HUB_OFFLINE"] = True
        yield
    finally:
        for switch, was in zip(switches, were, strict=True):
            switch["HF_HUB_OFFLINE"] = was
