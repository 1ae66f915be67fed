"""What a cluster is on disk: its directory among others, its description, its backup.

`directories` finds the directory of a cluster by name, `datadir` says who may use it, `description` what it holds,
`sockets` gives it a short name; `backup` writes all of it into one file, and `restoring` puts that back.
"""
