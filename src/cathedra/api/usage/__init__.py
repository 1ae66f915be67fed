"""What objects use of a namespace's quota: pure functions, asked at admission and by whoever recounts.

`claims` counts devices, `pods` sums resources, `special` settles who pays where both would, `objects` counts the rest
(spec: api.md, B.4).
"""
