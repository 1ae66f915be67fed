"""Example drivers, built on the SDK."""
