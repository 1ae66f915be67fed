"""Answers ResourcePoolStatusRequests: what pools have, and what is left of it.

`calculation` is pure; `controller` answers requests once and clears old ones away (docs/spec/controllers.md §4).
"""
