"""Published numbers, and the recipes that derive them again from released data.

>>> from levelfield import papers
>>> [table.id for table in papers.tables("thesis.10")]
['thesis.10']
"""

from levelfield.papers.answers import QUESTIONS, Grid, Question, QuestionAnswer, answer, questions
from levelfield.papers.recipes.released import Scoring
from levelfield.papers.report import PaperReport, reproduce
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

__all__ = [
    "PAPERS",
    "QUESTIONS",
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
    "Reproduction",
    "Scoring",
    "Verdict",
    "answer",
    "derive",
    "facts_about",
    "judge",
    "questions",
    "read_paper",
    "reproduce",
    "tables",
    "tally",
]
