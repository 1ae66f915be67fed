"""Daemon sets: `placement` knows the nodes and makes the pods, `rolling` decides what an update replaces next,
`controller` does the work."""
