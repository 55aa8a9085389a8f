"""Contract-test case of `ctrl`."""

from levelfield.generation.techniques.ctrl.technique import CTRL
from technique_cases import Case, ctrl

CASE = Case(
    lambda **options: CTRL(
        **{
            **options,
            # other models than CTRL are refused
            "model": options["model"] if options.get("model", "").startswith("no/") else ctrl(),
        }
    ),
    controls=({"sentiment": "positive"}, {"topic": "Sports"}),
    strength=False,
    options={"code": "Horror"},
)
