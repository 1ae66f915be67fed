"""Tests of `cathedra.apiserver.authorization`."""
