"""Kinds of the group batch: work that ends (spec: controllers.md, section 7).

`cronjobs` make jobs at the times of a `schedule`, `jobs` make pods; `definitions` is the list.
"""
