from __future__ import annotations

from levelfield.core.metric import partitions
from levelfield.core.sample import Sample


def test_partitions_hold_every_sample_once_in_order():
    samples = [Sample(str(i), "") for i in range(130)]
    parts = list(partitions(samples))
    assert [len(p) for p in parts] == [64, 64, 2]
    assert [s.id for p in parts for s in p] == [s.id for s in samples]
