"""The cluster on disk: its directory, its description, its backup.

`directories` finds the directory of a cluster and records the cluster's options in it, `datadir` locks it and gives its
sockets short paths, and `backup` writes and restores backups, and verifies objects.
"""
