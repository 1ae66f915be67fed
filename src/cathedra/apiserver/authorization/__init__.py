"""Who may do what: attributes of a request in, a decision out (docs/spec/apimachinery.md §15).

`authorizer` is the question and the answer. The authorizers: `node` for node agents (their objects are in
`noderelations`), `rbac` by the `policyrules` of roles; the roles that every cluster has are in `bootstrap`.
`impersonation` lets a user act as another, `celauthorizer` serves the `authorizer` variable of CEL expressions.
"""
