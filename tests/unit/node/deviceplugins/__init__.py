"""Classic device plugins."""
