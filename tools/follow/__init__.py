"""Compare Cathedra with the source of a Kubernetes release: ``make follow KUBERNETES=v1.38.0-rc.0``.

Each module lists the differences of one subject, each with the file of Kubernetes that shows it: `gates`, `versions`,
`fields`, `openapi`, `texts`, `roles`, `plugins` and `metrics`. They read files through `source`, extract facts with
`golang`, and return `report.Difference`. Deliberate deviations are declared in ``declared.toml``, each with a reason,
and are only counted. CONTRIBUTING.md describes how a release is taken in.
"""
