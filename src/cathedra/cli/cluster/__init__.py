"""Commands on whole clusters: start, stop, list, show, back up, and hand out credentials."""
