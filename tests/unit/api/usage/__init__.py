"""Tests of `cathedra.api.usage`."""
