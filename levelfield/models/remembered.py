"""What a process keeps of models that it has loaded, until their files change."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
Stamp = tuple[str, tuple[tuple[str, int, int], ...]]

_CACHES: list[functools._lru_cache_wrapper[Any]] = []
_STAMPS: dict[str, Stamp] = {}


def remembered(size: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As `functools.lru_cache`, for what is made of models: `see` empties it, which is asked of
    the first argument if that is a name."""

    def wrap(make: Callable[P, R]) -> Callable[P, R]:
        cache = functools.lru_cache(maxsize=size)(make)
        cached = cast("Callable[P, R]", cache)
        _CACHES.append(cache)

        @functools.wraps(make)
        def made(*args: P.args, **options: P.kwargs) -> R:
            if args and isinstance(args[0], str):
                see(args[0])
            return cached(*args, **options)

        vars(made).update(cache_clear=cache.cache_clear, cache_info=cache.cache_info)
        return made

    return wrap


def see(name: str) -> None:
    """Forgets all models if the folder of this name is another one than before, or has other
    files: it was trained again, or the working directory changed. A name is then no longer what
    it was, and nor is what was made of it."""
    folder = folder_of(name)
    stamp = _stamp(folder.resolve()) if (folder / "config.json").is_file() else None
    if stamp is None:
        changed = _STAMPS.pop(name, None) is not None
    else:
        changed = _STAMPS.setdefault(name, stamp) != stamp
        _STAMPS[name] = stamp
    if changed:
        for cache in _CACHES:
            cache.cache_clear()


def folder_of(name: str) -> Path:
    """The folder that a name means if it means one; `~` of nobody stays as it is."""
    return Path(os.path.expanduser(name))  # noqa: PTH111  (Path.expanduser raises of nobody's)


def _stamp(folder: Path) -> Stamp:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    about = ((str(path.relative_to(folder)), path.stat()) for path in files)
    return str(folder), tuple((name, s.st_mtime_ns, s.st_size) for name, s in about)
