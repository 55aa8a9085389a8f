"""A folder to work in, and the command line in this process."""

from command_line_fixtures import here, run, write

__all__ = ["here", "run", "write"]
