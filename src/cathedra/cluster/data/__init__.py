"""The cluster on disk: its directory, its description, its backup.

`directories` finds the directory of a cluster by name, `datadir` locks it, `description` records the cluster's options,
`sockets` gives its sockets short paths, `backup` writes and restores backups, and `verification` checks objects.
"""
