"""What a JSON schema says of a choice whose default depends on others."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.core.options import Options, json_schema, option


@dataclass(frozen=True, kw_only=True)
class Tea(Options):
    """A tea."""

    kind: str = option("black", "Kind of leaves.")
    minutes: int = option(3, "Minutes to steep.", least=1, otherwise="3; of green leaves 2")


def test_a_default_in_words_takes_the_place_of_the_value():
    properties = json_schema(Tea)["properties"]
    assert properties["kind"]["default"] == "black"
    assert "default" not in properties["minutes"]
    assert (
        properties["minutes"]["description"] == "Minutes to steep. Default: 3; of green leaves 2."
    )
