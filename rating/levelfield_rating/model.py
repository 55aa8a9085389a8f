"""What a rating study is once it is frozen: plain data that the store keeps as one JSON document.

A **study** splits what is to be rated into **surveys**; each survey has as many **slots** as raters
should see it. A slot is an order of **items**. An item is one thing to judge: a text (direct), two
texts (pairwise) or several (ranking), with what they were made from. Texts that are equal are shown
once and stand for all their samples (Mao 2021, section 3.3).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from levelfield.core.options import Options, json_schema, option

Design = Literal["direct", "pairwise", "ranking"]
ScaleKind = Literal["slider", "likert", "pairwise", "ranking"]
ControlKind = Literal["", "shuffled", "dropped", "other"]
Direction = Literal["ltr", "rtl", "auto"]

SLIDER = (1, 100)
"""The ends of a slider; it has no numbers that a rater sees (Mao 2021, section 3.3)."""

FORMAT = 1
"""Of the frozen document; raised when an older reader could misread it."""


_ID = re.compile(r"(?![.-])[A-Za-z0-9_.-]{1,60}")
IDENTIFIER: Mapping[str, Any] = {
    "fits": _ID.fullmatch,
    "schema": lambda: {"pattern": f"^{_ID.pattern}$"},
}
"""What a word has to be that names files and columns, for `option`."""


def expected_identifier(example: str) -> str:
    """Returns what `IDENTIFIER` accepts, in words."""
    return f"up to 60 letters a to z, digits, - _ and ., such as {example}"


@dataclass(frozen=True)
class RatingCriterion(Options):
    """One question that is asked of every item."""

    id: str = option(
        help="Identifier of the criterion, unique; becomes the aspect of the ratings.",
        positional=True,
        expected=expected_identifier('"content"'),
        example='"content"',
        **IDENTIFIER,
    )
    title: str = option(help="Heading that raters see.", positional=True, example='"Content"')
    statement: str = option(
        help="Statement that raters agree or disagree with, or question that they answer.",
        positional=True,
        example='"Both texts say the same."',
    )
    scale: ScaleKind = option(
        "slider",
        "Scale of the answers: a line from 1 to 100 without numbers (slider), points (likert), a "
        "choice of one of two texts or neither (pairwise), or an order, best first, ties allowed "
        "(ranking).",
        otherwise="slider; in a pairwise design pairwise, in a ranking ranking",
    )
    low: str = option(
        "", "Meaning of the low end of a slider or a Likert scale.", example='"disagree"'
    )
    high: str = option("", "Meaning of the high end.", example='"agree"')
    points: int = option(5, "Number of points of a Likert scale.", least=2, most=11)
    labels: tuple[str, ...] = option(
        (),
        "Labels of a Likert scale, one for each point.",
        example='["poor", "fair", "good"]',
    )
    help: str = option(
        "",
        "Further explanation in Markdown, shown on a card of its own in the instructions.",
        example='"Compare names and numbers."',
    )

    @classmethod
    def schema_rules(cls) -> Mapping[str, Any]:
        """Returns what only a Likert scale has."""
        likert = {"properties": {"scale": {"const": "likert"}}, "required": ["scale"]}
        return {"dependentSchemas": {"points": likert, "labels": likert}}


@dataclass(frozen=True)
class TextPart:
    """A piece of text as raters see it: `text` literally, in its language and direction.

    Attributes:
        name: heading above it: `Original`, `Prompt`, a speaker.
    """

    name: str
    text: str
    language: str = ""
    direction: Direction = "auto"


@dataclass(frozen=True)
class Candidate:
    """A text to judge, and the samples that have it, which no rater ever sees."""

    part: TextPart
    samples: tuple[str, ...]


@dataclass(frozen=True)
class Item:
    """One thing to judge.

    Attributes:
        key: names it inside the study; raters see an opaque id in its place.
        survey: from 1.
        given: what it was made from, shown above: source, prompt or turns of a dialogue.
        candidates: one (direct), two (pairwise) or more (ranking).
        task: what was wanted of the text, in words for raters: `make it formal`.
        direction: the label that directions are balanced by; empty if there is one only.
        control: what kind of negative sample it is; empty for a real one.
    """

    key: str
    survey: int
    given: tuple[TextPart, ...]
    candidates: tuple[Candidate, ...]
    task: str = ""
    direction: str = ""
    control: ControlKind = ""


@dataclass(frozen=True)
class Placed:
    """An item at its place in a slot.

    Attributes:
        opaque: what the rater's pages call it, random.
        order: candidates in the order of display, as positions in `Item.candidates`.
    """

    item: str
    opaque: str
    order: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Slot:
    """What one rater of a survey sees, in order.

    Attributes:
        name: for the organiser: `survey 2, rater 1`.
    """

    name: str
    survey: int
    items: tuple[Placed, ...]


@dataclass(frozen=True)
class WorkedExample:
    """An item with answers and their reason, shown before the rating; raters don't answer it."""

    given: tuple[TextPart, ...]
    candidates: tuple[TextPart, ...]
    task: str
    direction: str
    answers: Mapping[str, str]
    """criterion -> what a good answer would be, in words."""
    why: str = ""


@dataclass(frozen=True)
class Practice:
    """An item that is answered before the rating, with two tries; nobody fails by it.

    Attributes:
        opaque: its id on the rater's pages.
        accept: criterion -> lowest and highest answer that passes (slider, Likert), or the wanted
            answer as one number twice (pairwise: position of the better text from 0, −1 neither).
        hint: shown after a first answer outside of that.
    """

    opaque: str
    given: tuple[TextPart, ...]
    candidates: tuple[TextPart, ...]
    task: str
    accept: Mapping[str, tuple[int, int]]
    hint: str


@dataclass(frozen=True, kw_only=True)
class PageFile(Options):
    """A file in place of a page."""

    file: str = option(help="Markdown file in UTF-8.", example='"consent.md"')


def _page(help: str, example: str) -> Any:
    """Declares a page, which a study file may say as a string or as a `PageFile`."""
    return option(
        "",
        help,
        example=f'"{example}" or {{ file = "page.md" }}',
        schema=lambda: json_schema(PageFile) | {"type": ["string", "object"]},
    )


@dataclass(frozen=True, kw_only=True)
class Words(Options):
    """What raters read around the items: Markdown, a string or `{ file = "consent.md" }`."""

    welcome: str = _page("Text of the first page.", "Welcome.")
    consent: str = _page("Text that raters agree to: which data are kept, and why.", "I agree.")
    instructions: str = _page("Text that explains how to rate.", "Read both texts.")
    thanks: str = _page("Text of the last page.", "Thank you.")


@dataclass(frozen=True)
class Frozen:
    """A whole study as it is rated.

    Attributes:
        id: a word for files.
        version: raised by the organiser with every change after the first rating.
        title, language, contact: for raters.
        duration: how long it takes, in words; empty if unknown.
        design: what items are.
        criteria: in the order asked.
        words: pages of text.
        consent_version: which wording a rater agreed to.
        items: by key.
        slots: all surveys, all raters.
        examples, practice: shown before rating.
        fail_rule: `not-lowest`: a rater whose negative sample is not rated below the median of the
            survey's real texts on the first criterion fails; `none`.
        completion: `random`: every rater gets a code of their own; else the one code of a crowd
            platform.
        completion_url: where to go then, with {code}; empty for nowhere.
        seed: of every random choice made.
        source_digest: names the study file and the samples that this was made from.
        samples: id -> the record of every sample that a candidate stands for, so that what is
            exported needs no other file. Raters never see it.
    """

    id: str
    version: int
    title: str
    language: str
    design: Design
    criteria: tuple[RatingCriterion, ...]
    items: Mapping[str, Item]
    slots: tuple[Slot, ...]
    words: Words = field(default_factory=Words)
    consent_version: str = "1"
    contact: str = ""
    duration: str = ""
    examples: tuple[WorkedExample, ...] = ()
    practice: tuple[Practice, ...] = ()
    fail_rule: Literal["not-lowest", "none"] = "not-lowest"
    completion: str = "random"
    completion_url: str = ""
    seed: int = 0
    source_digest: str = ""
    samples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    format: int = FORMAT

    def document(self) -> str:
        """Returns the study as canonical JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        """sha256 of the document: names the study wherever ratings go."""
        return hashlib.sha256(self.document().encode("utf-8", "surrogatepass")).hexdigest()

    def placed(self, slot: int) -> tuple[Placed, ...]:
        """Returns the items of a slot, in order; none if the study has no such slot any more."""
        return self.slots[slot].items if slot < len(self.slots) else ()

    @classmethod
    def from_document(cls, text: str) -> Frozen:
        """Reads a study back from the text that `document` returns.

        Raises:
            ValueError: written by a later version.
        """
        raw: dict[str, Any] = json.loads(text)
        if raw["format"] > FORMAT:
            raise ValueError(f"the study has format {raw['format']}; this version reads {FORMAT}")
        return cls(
            **{
                **raw,
                "criteria": tuple(_criterion(c) for c in raw["criteria"]),
                "items": {key: _item(value) for key, value in raw["items"].items()},
                "slots": tuple(_slot(value) for value in raw["slots"]),
                "words": Words(**raw["words"]),
                "examples": tuple(WorkedExample(**_shown(value)) for value in raw["examples"]),
                "practice": tuple(_practice(value) for value in raw["practice"]),
            }
        )


def _criterion(raw: Mapping[str, Any]) -> RatingCriterion:
    return RatingCriterion(**{**raw, "labels": tuple(raw["labels"])})


def _parts(raw: list[Mapping[str, Any]]) -> tuple[TextPart, ...]:
    return tuple(TextPart(**part) for part in raw)


def _item(raw: Mapping[str, Any]) -> Item:
    candidates = tuple(
        Candidate(TextPart(**c["part"]), tuple(c["samples"])) for c in raw["candidates"]
    )
    return Item(**{**raw, "given": _parts(raw["given"]), "candidates": candidates})


def _slot(raw: Mapping[str, Any]) -> Slot:
    placed = tuple(Placed(p["item"], p["opaque"], tuple(p["order"])) for p in raw["items"])
    return Slot(raw["name"], raw["survey"], placed)


def _shown(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {**raw, "given": _parts(raw["given"]), "candidates": _parts(raw["candidates"])}


def _practice(raw: Mapping[str, Any]) -> Practice:
    accept = {name: (low, high) for name, (low, high) in raw["accept"].items()}
    return Practice(**_shown(raw) | {"accept": accept})
