"""Published numbers, and the recipes that derive them again from released data.

>>> from levelfield import papers
>>> [table.id for table in papers.tables("thesis.10")]
['thesis.10']
"""

from levelfield.papers.recipes.released import Scoring
from levelfield.papers.reproduction import Reproduction, reproduce, tables, tally
from levelfield.papers.tables import PAPERS, Fact, Number, Paper, Table, facts_about, read_paper
from levelfield.papers.verdict import Derived, Outcome, Verdict, judge

__all__ = [
    "PAPERS",
    "Derived",
    "Fact",
    "Number",
    "Outcome",
    "Paper",
    "Reproduction",
    "Scoring",
    "Table",
    "Verdict",
    "facts_about",
    "judge",
    "read_paper",
    "reproduce",
    "tables",
    "tally",
]
