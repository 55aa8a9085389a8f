"""What papers published that a model needs, and that is no model."""

from __future__ import annotations

from levelfield.fetch import Published

IWF_PEGASUS = Published(
    set="ctrleval",
    repository="thu-coai/CTRLEval",
    commit="33639daedc376bd322f976f3feee5690a1de669e",
    path="iwf_full.txt",
    sha256="d88a4385a6a8471ce62b318bde7fee07093093555705aa1b46f429f7a2067728",
    bytes=1_957_274,
)
