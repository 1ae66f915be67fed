"""The kinds of resource.k8s.io in v1alpha1 and v1alpha2: definitions, rules, columns, conversion.

Inside there is only the form of v1alpha2, the richer one; what 1.26 calls otherwise is converted at the edge
(`conversion`). `definitions` gathers all kinds of a release.
"""
