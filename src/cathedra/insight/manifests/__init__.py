"""Manifests as their authors wrote them: the objects with the place of every field.

`files` finds what was named, `tree` reads YAML (and JSON) into nodes that know their places, `objects` takes documents
and Lists apart, `places` finds the place of a field's path, also inside texts, and `podspecs` the pods in workloads.
"""
