"""Tests of `cathedra.node.images`."""
