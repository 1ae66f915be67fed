"""Errors of simulations with faults, which the command line prints in one line."""

from __future__ import annotations


class InvalidPlan(ValueError):
    """A plan, or an option of one, cannot be used."""
