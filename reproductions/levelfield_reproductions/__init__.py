"""Published numbers, the recipes that derive them again, and the agreement of our own defaults.

>>> import levelfield_reproductions as papers
>>> [table.id for table in papers.tables("thesis.10")]
['thesis.10']

Names are imported when they are first used, so that `levelfield --help` waits for none of them.
"""

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazily

if TYPE_CHECKING:
    from levelfield_reproductions.agreement import SetAgreement as SetAgreement
    from levelfield_reproductions.choices import (
        DefaultsOptions as DefaultsOptions,
    )
    from levelfield_reproductions.choices import (
        TableOptions as TableOptions,
    )
    from levelfield_reproductions.defaults import (
        DefaultsReport as DefaultsReport,
    )
    from levelfield_reproductions.defaults import (
        agreement_of_defaults as agreement_of_defaults,
    )
    from levelfield_reproductions.published_tables import (
        PAPERS as PAPERS,
    )
    from levelfield_reproductions.published_tables import (
        Fact as Fact,
    )
    from levelfield_reproductions.published_tables import (
        Gap as Gap,
    )
    from levelfield_reproductions.published_tables import (
        Number as Number,
    )
    from levelfield_reproductions.published_tables import (
        Paper as Paper,
    )
    from levelfield_reproductions.published_tables import (
        PublishedTable as PublishedTable,
    )
    from levelfield_reproductions.published_tables import (
        facts_about as facts_about,
    )
    from levelfield_reproductions.published_tables import (
        read_paper as read_paper,
    )
    from levelfield_reproductions.rated import (
        RATED_SETS as RATED_SETS,
    )
    from levelfield_reproductions.rated import (
        RatedSet as RatedSet,
    )
    from levelfield_reproductions.rated import (
        is_of_defaults as is_of_defaults,
    )
    from levelfield_reproductions.rated import (
        rated_sets as rated_sets,
    )
    from levelfield_reproductions.recipes.released import Scoring as Scoring
    from levelfield_reproductions.report import (
        PaperReport as PaperReport,
    )
    from levelfield_reproductions.report import (
        reproduce as reproduce,
    )
    from levelfield_reproductions.reproduction import (
        QUESTIONS as QUESTIONS,
    )
    from levelfield_reproductions.reproduction import (
        Grid as Grid,
    )
    from levelfield_reproductions.reproduction import (
        Question as Question,
    )
    from levelfield_reproductions.reproduction import (
        QuestionAnswer as QuestionAnswer,
    )
    from levelfield_reproductions.reproduction import (
        Reproduction as Reproduction,
    )
    from levelfield_reproductions.reproduction import (
        answer as answer,
    )
    from levelfield_reproductions.reproduction import (
        derive as derive,
    )
    from levelfield_reproductions.reproduction import (
        questions as questions,
    )
    from levelfield_reproductions.reproduction import (
        tables as tables,
    )
    from levelfield_reproductions.reproduction import (
        tally as tally,
    )
    from levelfield_reproductions.verdict import (
        Derived as Derived,
    )
    from levelfield_reproductions.verdict import (
        Outcome as Outcome,
    )
    from levelfield_reproductions.verdict import (
        Verdict as Verdict,
    )
    from levelfield_reproductions.verdict import (
        judge as judge,
    )

_NAMES = {
    "agreement": "SetAgreement",
    "choices": "DefaultsOptions TableOptions",
    "defaults": "DefaultsReport agreement_of_defaults",
    "published_tables": "PAPERS Fact Gap Number Paper PublishedTable facts_about read_paper",
    "rated": "RATED_SETS RatedSet is_of_defaults rated_sets",
    "recipes.released": "Scoring",
    "report": "PaperReport reproduce",
    "reproduction": "QUESTIONS Grid Question QuestionAnswer Reproduction answer derive questions "
    "tables tally",
    "verdict": "Derived Outcome Verdict judge",
}
"""Module -> the public names that it has."""

__getattr__ = lazily(
    __name__,
    {name: f"{__name__}.{module}" for module in _NAMES for name in _NAMES[module].split()},
)
