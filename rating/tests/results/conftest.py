from __future__ import annotations

from pathlib import Path

import pytest

from levelfield_rating.store import RatingStore
from planted_raters import SYSTEMS, noisy
from simulated_raters import direct_study, opened, rate


@pytest.fixture
def rated(tmp_path: Path) -> RatingStore:
    frozen = direct_study(SYSTEMS, sources=40)
    store = opened(tmp_path, frozen)
    for slot, bias in enumerate((-5, 5, -5, 5)):
        rate(store, slot, noisy(frozen, slot, bias=bias))
    return store
