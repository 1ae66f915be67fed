"""All objects in memory, and the one order in which they change.

`registry` is the front: it compares a write with the state that it was made from and passes it to a commit log,
`commitlog` where this process numbers the writes and `sharedcommitlog` where the store of several servers does.
`tables` holds a `table` per resource with its `storedobject`s and their history, and `sortedkeys` for lists; `layout`
says how a store names and keeps them. `selection` picks what a list or watch asked for, and `watching` hands changes to
watchers.
"""
