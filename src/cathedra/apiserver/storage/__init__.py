"""Where objects survive: a durable log behind the objects in memory. Nothing outside the API server knows of it.

`protocol` is what the registry asks of a store; `memory` keeps nothing, `sqlite` is a file of this process' own, `etcd`
is shared by several servers. `transactions` writes batches into the SQLite log, `compaction` keeps that log short,
`revisionfile` remembers what was acknowledged outside the database, and `sqlitebackup` copies the database while it is
written.
"""
