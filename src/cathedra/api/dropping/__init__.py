"""Fields behind closed gates: taken out before validation, unless the stored object uses the feature already.

`claims`, `slices` and `pods` each know the fields of their kinds and what "uses" means (spec: api.md, section 1.6).
"""
