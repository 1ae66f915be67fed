"""All objects in memory, and the one order in which they change.

`registry` is the façade: it compares a write with the state that it was made from and passes it to a commit log:
`commitlog` where this process assigns revisions, `sharedcommitlog` where a store does that several servers share.
The registry serves a commit log to further servers as such a store. `tables` holds a `table` per resource with its
`storedobject`s and their history; `layout` has the keys and values of stores. `deviceholders` compares an allocation
with what other claims hold. `selection` finds the objects of a list or watch, and `watching` delivers changes to
watchers.
"""
