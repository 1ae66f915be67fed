"""What objects use of a namespace's quota: pure functions, asked at admission and by whoever recounts.

`claims` counts devices, `pods` sums resources, `objects` counts everything else (spec: api.md, B.4).
"""
