"""Where things are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def user_cache() -> Path:
    """`$LEVELFIELD_CACHE`, else the user's cache folder; it need not exist."""
    folder = os.environ.get("LEVELFIELD_CACHE")
    return Path(folder or platformdirs.user_cache_path("levelfield"))
