"""The cluster on disk: its directory, its description, its backup.

`directories` finds the directory of a cluster and records the cluster's options in it, `datadir` locks it
and gives its sockets short paths, `backup` writes and restores backups, and `verification` checks objects.
"""
