"""Tests of `cathedra.node.runtime.cri`."""
