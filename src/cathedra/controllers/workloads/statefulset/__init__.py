"""Stateful sets: `ordinals` numbers their pods, `volumeclaims` keeps what these store, `controller` does the work."""
