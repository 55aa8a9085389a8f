"""Contract-test case of `base`."""

from levelfield.generation.technique import UncontrolledBase
from technique_cases import Case, on_tiny

CASE = Case(on_tiny(UncontrolledBase), refused=None, strength=False)
