"""Generators, fuzzers and figures of the project; not part of the package."""
