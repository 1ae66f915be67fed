"""Admission: plugins that change an object before validation, and plugins that refuse it afterwards
(docs/spec/apimachinery.md §16).

`attributes` is the write as a plugin gets it, `plugin` the chain of plugins. In the order in which they are called:
`lifecycle` of namespaces, `limitranger`, `pods`, `podsecurity`, `noderestriction`, `protection`, `defaultclasses`,
`webhooks` (the mutating ones), `escalation`, then `policies`, the validating `webhooks`, and `resourcequota`. Policies
and webhooks share `matching` (whether one matches a write) and `versioned` (the objects in the version that it needs).
"""
