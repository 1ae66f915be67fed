"""Tests of `cathedra.node.runtime`."""
