"""Builds the documentation as a site: ``python -m tools.handbook``.

`staging` copies ``docs`` and adds the pages that are generated from code: `commands`, `pythonapi`, `facts` (metrics and
rules of lint), `errors` and `evidence`. Zensical renders the copy, and `links` checks every link and anchor of the
result.
"""
