"""Types of arrays, by one name each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint8]
"""0 or 1."""
Ints = npt.NDArray[np.int64]
VocabularyIds = npt.NDArray[np.int32]
"""Vocabulary ids of a corpus."""
Codes = npt.NDArray[np.intp]
"""Indices: which cluster, group or rank a row belongs to."""
Hashes = npt.NDArray[np.uint64]
