"""Limits that keep memory and time bounded, in one place; `docs/files.md` lists them for users.

Whoever meets a limit raises an error that says the limit and what to do instead.
"""

from __future__ import annotations

TEXT_CHARACTERS = 10_000_000
"""Length of one text or name in a record."""

LARGEST_NUMBER = 1e100
"""A score or a rating, so that squares and sums of squares are numbers, too."""

LINE_BYTES = 1 << 26
"""Size of one line of a text file, and of one row of a table."""

LIST_BYTES = 1 << 28
"""Size of a file that is parsed whole: a JSON list."""

RECORD_VALUES = 1 << 23
"""Values of one record, which as objects take far more memory than as text."""

STREAM_BYTES = 1 << 32
"""Size of standard input or of another pipe, which is copied to a temporary file."""

ANSWER_BYTES = 1 << 26
"""Size of one answer of a chat server."""

CELL_BYTES = 1 << 30
"""Size of the answers of a system in one attempt at a cell, which are held in memory."""

TOML_BYTES = 1 << 24
"""Size of a TOML file."""

PIPE_WAIT_S = 10.0
"""Time that a named pipe may be without a program that writes to it."""

DRAWS = 1_000_000
"""Resamples of a bootstrap, and permutations of a test."""

RETRIES = 100
"""Retries of a request to a server, or of a system at a cell."""

JOBS = 1_000
"""Cells of a study at once."""

SURVEYS = RATERS = 1_000
"""Surveys of a rating study, and raters of each."""

STUDY_REQUESTS = 10_000_000
"""Requests of a study: systems × seeds × prompts × values of controls."""

CELL_REQUESTS = 1_000_000
"""Requests of a cell, which is held in memory: prompts × values of one kind of control."""

SEED = (1 << 32) - 1
"""The largest seed, which every generator of random numbers accepts."""

REQUESTS = 10_000_000
"""Requests of `levelfield generate`, held in memory: requests × labels of controls."""

RANKED_TEXTS = 500
"""Texts of a ranking, of which every two are a comparison: k (k − 1) / 2."""

WORKERS = 1_024
"""Processes of this machine, or tasks of a cluster, at a time."""
