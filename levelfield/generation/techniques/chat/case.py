"""Contract-test case of `chat`."""

from levelfield.generation.techniques.chat.technique import ChatPrompting
from technique_cases import Case, server, terse_instructions

CASE = Case(
    lambda batch=8, **options: ChatPrompting(
        **{"model": "m", "base_url": server(), "concurrency": batch, **options}
    ),
    controls=({"sentiment": "positive"}, {"keywords": ("court", "culture")}),
    refused={"sentiment": ()},
    strength=False,
    options={"shots": 1, "instructions": str(terse_instructions()), "prefill": True},
)
