"""Tests of `cathedra.allocation`."""
