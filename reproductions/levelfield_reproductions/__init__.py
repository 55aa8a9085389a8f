"""Published numbers, the recipes that derive them again, and the agreement of our own defaults.

>>> import levelfield_reproductions as papers
>>> [table.id for table in papers.tables("thesis.10")]
['thesis.10']

Names are imported when they are first used, so that `levelfield --help` waits for none of them.
"""

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazily

if TYPE_CHECKING:
    from levelfield_reproductions.agreement import SetAgreement
    from levelfield_reproductions.answers import (
        QUESTIONS,
        Grid,
        Question,
        QuestionAnswer,
        answer,
        questions,
    )
    from levelfield_reproductions.choices import DefaultsOptions, TableOptions
    from levelfield_reproductions.defaults import DefaultsReport, agreement_of_defaults
    from levelfield_reproductions.published_tables import (
        PAPERS,
        Fact,
        Gap,
        Number,
        Paper,
        PublishedTable,
        facts_about,
        read_paper,
    )
    from levelfield_reproductions.rated import (
        RATED_SETS,
        RatedSet,
        is_of_defaults,
        rated_sets,
    )
    from levelfield_reproductions.recipes.released import Scoring
    from levelfield_reproductions.report import PaperReport, reproduce
    from levelfield_reproductions.reproduction import Reproduction, derive, tables, tally
    from levelfield_reproductions.verdict import Derived, Outcome, Verdict, judge

__all__ = [
    "PAPERS",
    "QUESTIONS",
    "RATED_SETS",
    "DefaultsOptions",
    "DefaultsReport",
    "Derived",
    "Fact",
    "Gap",
    "Grid",
    "Number",
    "Outcome",
    "Paper",
    "PaperReport",
    "PublishedTable",
    "Question",
    "QuestionAnswer",
    "RatedSet",
    "Reproduction",
    "Scoring",
    "SetAgreement",
    "TableOptions",
    "Verdict",
    "agreement_of_defaults",
    "answer",
    "derive",
    "facts_about",
    "is_of_defaults",
    "judge",
    "questions",
    "rated_sets",
    "read_paper",
    "reproduce",
    "tables",
    "tally",
]

__getattr__ = lazily(
    __name__,
    {
        "DefaultsOptions": "levelfield_reproductions.choices",
        "DefaultsReport": "levelfield_reproductions.defaults",
        "Derived": "levelfield_reproductions.verdict",
        "Fact": "levelfield_reproductions.published_tables",
        "Gap": "levelfield_reproductions.published_tables",
        "Grid": "levelfield_reproductions.answers",
        "Number": "levelfield_reproductions.published_tables",
        "Outcome": "levelfield_reproductions.verdict",
        "PAPERS": "levelfield_reproductions.published_tables",
        "Paper": "levelfield_reproductions.published_tables",
        "PaperReport": "levelfield_reproductions.report",
        "PublishedTable": "levelfield_reproductions.published_tables",
        "QUESTIONS": "levelfield_reproductions.answers",
        "Question": "levelfield_reproductions.answers",
        "QuestionAnswer": "levelfield_reproductions.answers",
        "RATED_SETS": "levelfield_reproductions.rated",
        "RatedSet": "levelfield_reproductions.rated",
        "Reproduction": "levelfield_reproductions.reproduction",
        "Scoring": "levelfield_reproductions.recipes.released",
        "SetAgreement": "levelfield_reproductions.agreement",
        "TableOptions": "levelfield_reproductions.choices",
        "Verdict": "levelfield_reproductions.verdict",
        "agreement_of_defaults": "levelfield_reproductions.defaults",
        "answer": "levelfield_reproductions.answers",
        "derive": "levelfield_reproductions.reproduction",
        "facts_about": "levelfield_reproductions.published_tables",
        "is_of_defaults": "levelfield_reproductions.rated",
        "judge": "levelfield_reproductions.verdict",
        "questions": "levelfield_reproductions.answers",
        "rated_sets": "levelfield_reproductions.rated",
        "read_paper": "levelfield_reproductions.published_tables",
        "reproduce": "levelfield_reproductions.report",
        "tables": "levelfield_reproductions.reproduction",
        "tally": "levelfield_reproductions.reproduction",
    },
)
