"""The process that holds containers."""
