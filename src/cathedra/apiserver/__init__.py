"""The API server: every object of the cluster, in memory, ordered by one event loop, made durable by a store.

In the order in which a request flows: `http` (or `transport`, in process) → `authentication` → `authorization` →
`verbs` (admission, defaults, validation, patches) → `registry` (the objects, their history, the watchers) → `storage`.
"""
