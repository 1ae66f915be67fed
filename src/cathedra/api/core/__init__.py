"""Generated object types of the built-in API groups."""
