"""Small frozen studies made by hand: every name that a rater must not see is easy to search for."""

from __future__ import annotations

from dataclasses import replace

from levelfield_rating.model import (
    Candidate,
    Frozen,
    Item,
    Placed,
    Practice,
    RatingCriterion,
    Slot,
    TextPart,
    Words,
    WorkedExample,
)

SECRETS = ("OWLSYSTEM", "FOXSYSTEM", "ELKSYSTEM", "SAMPLEMARK", "KEYMARK", "SLOTMARK", "987654321")
"""Parts of system names, sample ids, item keys, slot names and the seed."""

SCRIPT = "<script>document.title='taken'</script> & <b>bold</b> [link](javascript:alert(1))"

TEXTS = (
    ("gonna be late, sorry!!", "I am going to be late; I apologise."),
    ("pls send the keys back", "Please return the keys to us."),
    ("that film was so dull", "The film did not hold my attention. 🙂"),
    (SCRIPT, SCRIPT),
    ("سوف أتأخر قليلا", "سوف أتأخر قليلا عن الموعد، وأعتذر عن ذلك."),
    ("cant make it tmrw", "I am unable to attend tomorrow."),
)

SLIDERS = (
    RatingCriterion(
        "style",
        "Style",
        "The rewritten text has the style that was asked for.",
        "slider",
        "disagree",
        "agree",
        help="Judge the **words** and the way they are put together, not what they say.",
    ),
    RatingCriterion(
        "content",
        "Content",
        "The rewritten text says the same as the original.",
        "slider",
        "disagree",
        "agree",
    ),
    RatingCriterion(
        "fluency",
        "Fluency",
        "A native speaker could have written it.",
        "slider",
        "disagree",
        "agree",
    ),
)


def criteria_of(scale: str) -> tuple[RatingCriterion, ...]:
    if scale == "slider":
        return SLIDERS
    if scale == "likert":
        named = ("awful", "poor", "fair", "good", "excellent")
        return (
            RatingCriterion("coherence", "Coherence", "The sentences hang together.", "likert",
                      "not at all", "completely"),
            RatingCriterion("fluency", "Fluency", "How well is it written?", "likert",
                      labels=named, points=5),
        )  # fmt: skip
    question = {"pairwise": "Which text is more formal?", "ranking": "Order the texts."}[scale]
    second = {"pairwise": "Which text says the same?", "ranking": "Order by content."}[scale]
    return (
        RatingCriterion("style", "Style", question, scale),  # type: ignore[arg-type]
        RatingCriterion("content", "Content", second, scale),  # type: ignore[arg-type]
    )


def _item(index: int, design: str, survey: int, control: bool) -> Item:
    source, rewritten = TEXTS[index % len(TEXTS)]
    language = "ar" if index % len(TEXTS) == 4 else "en"
    number = {"direct": 1, "pairwise": 2, "ranking": 3}[design]
    systems = ("OWLSYSTEM", "FOXSYSTEM", "ELKSYSTEM")
    candidates = tuple(
        Candidate(
            TextPart(
                "Rewritten", rewritten + " !" * k, language, "rtl" if language == "ar" else "ltr"
            ),
            () if control else (f"SAMPLEMARK-{systems[k]}-{survey}-{index}",),
        )
        for k in range(number)
    )
    return Item(
        key=f"KEYMARK-{survey}-{index}",
        survey=survey,
        given=(TextPart("Original", source, language, "auto"),),
        candidates=candidates,
        task="Make it formal" if index % 2 == 0 else "Make it informal",
        direction="formal" if index % 2 == 0 else "informal",
        control="shuffled" if control else "",
    )


def small_study(
    *,
    scale: str = "slider",
    items: int = 4,
    surveys: int = 1,
    raters: int = 2,
    control: bool = True,
    practice: bool = True,
    examples: bool = True,
    language: str = "en",
    version: int = 1,
) -> Frozen:
    """Returns a study of `scale`; a control is the last item but one of every survey."""
    design = scale if scale in ("pairwise", "ranking") else "direct"
    criteria = criteria_of(scale)
    all_items = [
        _item(i, design, survey, control and items > 2 and i == items - 2)
        for survey in range(1, surveys + 1)
        for i in range(items)
    ]
    slots = []
    for survey in range(1, surveys + 1):
        survey_items = [item for item in all_items if item.survey == survey]
        for rater in range(raters):
            start = rater % len(survey_items)
            turned = survey_items[start:] + survey_items[:start]
            placed = tuple(
                Placed(
                    item.key,
                    f"o{survey}{rater}{position}xyzw",
                    _order(len(item.candidates), rater + position),
                )
                for position, item in enumerate(turned)
            )
            slots.append(Slot(f"SLOTMARK survey {survey}, rater {rater + 1}", survey, placed))
    number = {"direct": 1, "pairwise": 2, "ranking": 3}[design]
    shown = tuple(
        TextPart("Rewritten", f"I shall be there soon{' enough' * k}.") for k in range(number)
    )
    originals = (TextPart("Original", "ill be there soon"),)
    bounds = {"slider": (60, 100), "likert": (4, 5), "pairwise": (0, 0), "ranking": (1, 1)}[scale]
    tasks = [
        Practice("pracA1", originals, shown, "Make it formal", {criteria[0].id: bounds},
                 "It is formal: look at “shall”."),
    ]  # fmt: skip
    worked = tuple(
        WorkedExample(originals, shown, f"Make it {direction}", direction,
                      {c.id: "near the right end" for c in criteria}, "Because it fits.")
        for direction in ("formal", "informal")
    )  # fmt: skip
    return Frozen(
        id="small",
        version=version,
        title="Rewritten sentences",
        language=language,
        design=design,  # type: ignore[arg-type]
        criteria=criteria,
        items={item.key: item for item in all_items},
        slots=tuple(slots),
        words=Words(
            welcome="Thank you for **helping**. <script>document.title='taken'</script>",
            consent="I take part of my own will.",
            instructions="Read both texts, then answer.\n\n- one\n- two",
            thanks="That was all.",
        ),
        contact="study@example.org",
        duration="10 minutes",
        examples=worked if examples else (),
        practice=tuple(tasks) if practice else (),
        completion_url="https://example.org/done?code={code}",
        seed=987654321,
        source_digest="0" * 64,
    )


def _order(number: int, turn: int) -> tuple[int, ...]:
    return tuple((k + turn) % number for k in range(number))


def with_criteria(frozen: Frozen, *criteria: RatingCriterion) -> Frozen:
    """Returns the study with other questions."""
    return replace(frozen, criteria=tuple(criteria))
