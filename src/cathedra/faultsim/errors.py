"""Errors of simulations."""

from __future__ import annotations


class InvalidPlan(ValueError):
    """A plan, or an option of one, cannot be used."""
