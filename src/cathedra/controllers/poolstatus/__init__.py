"""Answers ResourcePoolStatusRequests: what pools have, and what is left of it.

`calculation` is pure; `controller` answers requests once and clears old ones away (spec: controllers.md, section 4).
"""
