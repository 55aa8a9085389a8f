"""Published numbers, the recipes that derive them again, and the agreement of our own defaults.

>>> import levelfield_reproductions as papers
>>> [table.id for table in papers.tables("thesis.10")]
['thesis.10']

Reports are imported when they are first used: the options of a command need none of them.
"""

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazily
from levelfield_reproductions.answers import (
    QUESTIONS,
    Grid,
    Question,
    QuestionAnswer,
    answer,
    questions,
)
from levelfield_reproductions.choices import DefaultsOptions, TableOptions
from levelfield_reproductions.rated import (
    RATED_SETS,
    RatedSet,
    is_of_defaults,
    rated_sets,
)
from levelfield_reproductions.recipes.released import Scoring
from levelfield_reproductions.reproduction import Reproduction, derive, tables, tally
from levelfield_reproductions.tables import (
    PAPERS,
    Fact,
    Gap,
    Number,
    Paper,
    PublishedTable,
    facts_about,
    read_paper,
)
from levelfield_reproductions.verdict import Derived, Outcome, Verdict, judge

if TYPE_CHECKING:
    from levelfield_reproductions.agreement import SetAgreement
    from levelfield_reproductions.defaults import DefaultsReport, agreement_of_defaults
    from levelfield_reproductions.report import PaperReport, reproduce

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
        "PaperReport": "levelfield_reproductions.report",
        "reproduce": "levelfield_reproductions.report",
        "DefaultsReport": "levelfield_reproductions.defaults",
        "SetAgreement": "levelfield_reproductions.agreement",
        "agreement_of_defaults": "levelfield_reproductions.defaults",
    },
)
