"""Attacks that must fail: one test for each hole that was found, and the walk over every route and identity."""
