"""Tests of `cathedra.node.containers`."""
