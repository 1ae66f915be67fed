"""The parts composed: a whole cluster in one process, or each part alone.

`config` holds the options; `datadir` the files of one cluster. `cluster` composes all parts in one process,
`standalone` runs one part beside an API server elsewhere, and `background` starts and stops either as a process of its
own. `serving` opens the API server of a data directory, `nodes` makes node agents with their drivers, `permissions`
their users.
"""
