"""Tests of `cathedra.node.pods`."""
