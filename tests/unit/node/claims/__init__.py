"""Claims that the node prepares."""
