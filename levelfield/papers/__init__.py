"""Published numbers, the recipes that derive them again, and the agreement of our own defaults.

>>> from levelfield import papers
>>> [table.id for table in papers.tables("thesis.10")]
['thesis.10']

Reports are imported when they are first used: the options of a command need none of them.
"""

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazily
from levelfield.papers.answers import QUESTIONS, Grid, Question, QuestionAnswer, answer, questions
from levelfield.papers.choices import DefaultsOptions, TableOptions
from levelfield.papers.rated import RATED_SETS, RatedSet, is_of_defaults, rated_sets
from levelfield.papers.recipes.released import Scoring
from levelfield.papers.reproduction import Reproduction, derive, tables, tally
from levelfield.papers.tables import (
    PAPERS,
    Fact,
    Gap,
    Number,
    Paper,
    PublishedTable,
    facts_about,
    read_paper,
)
from levelfield.papers.verdict import Derived, Outcome, Verdict, judge

if TYPE_CHECKING:
    from levelfield.papers.defaults import DefaultsReport, SetAgreement, agreement_of_defaults
    from levelfield.papers.report import PaperReport, reproduce

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
        "PaperReport": "levelfield.papers.report",
        "reproduce": "levelfield.papers.report",
        "DefaultsReport": "levelfield.papers.defaults",
        "SetAgreement": "levelfield.papers.defaults",
        "agreement_of_defaults": "levelfield.papers.defaults",
    },
)
