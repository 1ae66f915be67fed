"""Tests of `cathedra.apiserver.admission`."""
