"""`python -m tools.website`: builds the site in `site/html` and checks it."""

from __future__ import annotations

import sys

from tools.website.build import build
from tools.website.pages import ROOT, WebsiteError


def main() -> int:
    """Builds the site; returns the exit code."""
    try:
        index = build(ROOT / "site")
    except WebsiteError as error:
        for line in str(error).split("\n"):
            print(f"error: {line}", file=sys.stderr)
        return 1
    print(f"open {index.relative_to(ROOT)} in a browser")
    return 0


if __name__ == "__main__":
    sys.exit(main())
