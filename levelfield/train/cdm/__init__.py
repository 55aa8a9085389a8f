"""Generative CDM from end to end: Algorithm 1 of Lu et al. 2024, section 3.4.1, as one run.

A file says what the corpus is, which two infillers there are or how they are trained, how negatives
are made and how the discriminator is trained; `docs/cdm.md` has its keys. Everything lies in one
folder: `amateur`, `expert` (unless models are named), `negatives.jsonl` and `discriminator`. Each
stage resumes where it stopped, and a finished one is left as it is: run the command again after a
kill until it is done.
"""

from dataclasses import dataclass

from levelfield.core.limits import SEED
from levelfield.core.options import Options, option


@dataclass(frozen=True)
class PerturbOptions(Options):
    """How texts are spoilt by rules."""

    kinds: str = option(
        "shuffle,drop,repeat,negate",
        "Kinds of perturbations, separated by commas; substitute is also available.",
    )
    times: int = option(1, "Maximum number of perturbations per text.", least=1, most=1_000)
    seed: int = option(0, "Seed of all random choices.", least=0, most=SEED)
