"""What is let in: plugins that change an object before validation, and plugins that refuse it afterwards
(docs/spec/apimachinery.md §16).

`attributes` are what a plugin sees, `plugin` is the chain they form. In the order in which they are asked:
`lifecycle` of namespaces, `limitranger`, `pods`, `podsecurity`, `noderestriction`, `protection`, `defaultclasses`,
`webhooks` (the mutating ones), `escalation`, then `policies`, the validating `webhooks`, and `resourcequota`. Policies
and webhooks share `matching` (what they concern) and `versioned` (what they are sent).
"""
