"""Published numbers, and the recipes that derive them again from released data.

>>> from levelfield import papers
>>> [table.id for table in papers.tables("thesis.10")]
['thesis.10']
"""

from levelfield.papers.answers import QUESTIONS, Answer, Grid, Question, answer, questions
from levelfield.papers.recipes.released import Scoring
from levelfield.papers.reproduction import Reproduction, reproduce, tables, tally
from levelfield.papers.tables import PAPERS, Fact, Number, Paper, Table, facts_about, read_paper
from levelfield.papers.verdict import Derived, Outcome, Verdict, judge

__all__ = [
    "PAPERS",
    "QUESTIONS",
    "Answer",
    "Derived",
    "Fact",
    "Grid",
    "Number",
    "Outcome",
    "Paper",
    "Question",
    "Reproduction",
    "Scoring",
    "Table",
    "Verdict",
    "answer",
    "facts_about",
    "judge",
    "questions",
    "read_paper",
    "reproduce",
    "tables",
    "tally",
]
