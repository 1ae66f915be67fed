"""Kinds of the group batch: work that ends (docs/spec/controllers.md §7).

`cronjobs` make jobs at the times of a schedule, `jobs` make pods.
"""
