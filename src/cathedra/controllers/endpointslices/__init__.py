"""Endpoint slices of services with selectors: the addresses of their pods, and their readiness.

`controller` turns pods into endpoints and writes the slices that have changed; `distribution` spreads endpoints over
slices with as few writes as possible.
"""
