"""The documentation, run: every ``console`` block in order, in a fresh directory, with its output compared."""
