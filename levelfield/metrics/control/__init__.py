"""Control effectiveness: how often judges find what a text was asked to have.

Lorandi and Belz, "Evaluating Controlled Text Generation on a Level Playing Field" (LPF), sections
3.2 and 6.2. A judge (levelfield.metrics.judges) votes for one label of an attribute; a text is
right when the vote is the label that its control wants. `keywords` are no label and not judged
here.
"""

from __future__ import annotations

from levelfield.metrics.control.effectiveness import (
    ControlAverage,
    ControlBalancedAccuracy,
    ControlBoth,
    ControlMajority,
    ControlProbability,
)

__all__ = [
    "ControlAverage",
    "ControlBalancedAccuracy",
    "ControlBoth",
    "ControlMajority",
    "ControlProbability",
]
