"""The kinds of resource.k8s.io in v1alpha1 and v1alpha2: definitions, rules, columns, conversion.

Internally they have the form of v1alpha2, which has more fields. `definitions` returns all kinds of a release, and
converts the names of 1.26 on input and output.
"""
