"""API servers in child processes, which serve the first one's port beside it (``--apiserver-count``).

`supervisor` starts the children, restarts those that end, and passes them connections; `program` is what a child runs.
"""
