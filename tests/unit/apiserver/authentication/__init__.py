"""Tests of `cathedra.apiserver.authentication`."""
