"""Stores, which make writes durable. Nothing outside the API server uses them.

`protocol` has their interfaces. `memory` keeps nothing, `sqlite` is a file that this process alone writes. Several
servers share `etcd`, or `primary`, the log of another server of the cluster. `transactions` writes batches into the
SQLite log, `compaction` keeps that log short, `revisionfile` remembers what was acknowledged outside the database, and
`sqlitebackup` copies the database while it is written.
"""
