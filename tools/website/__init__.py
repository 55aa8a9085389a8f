"""The documentation site: `python -m tools.website` writes `site/html`.

Pages of `docs/`, the READMEs of the examples, CONTRIBUTING and the changelog are staged in
`site/pages`, with links that hold there and formulas as MathML. The reference is written beside
them from docstrings and declarations of options. Zensical makes HTML of all pages, which `checks`
reads.
"""
