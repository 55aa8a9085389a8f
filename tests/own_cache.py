"""A cache folder of a test's own."""

from __future__ import annotations

from pathlib import Path

KEPT_MODELS = Path(__file__).parents[1] / ".pytest_cache" / "d" / "models"


def own_cache(folder: Path) -> Path:
    """The folder as a cache that is empty but for converted models: those are made once, and stay
    with what pytest keeps from run to run."""
    for path in (KEPT_MODELS, folder):
        path.mkdir(parents=True, exist_ok=True)
    (folder / "models").symlink_to(KEPT_MODELS, target_is_directory=True)
    return folder
