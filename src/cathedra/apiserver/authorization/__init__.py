"""Authorization: decisions about requests by their attributes (docs/spec/apimachinery.md §15).

`authorizer` has the attributes and the decision. The authorizers: `node` for node agents (their objects are in
`noderelations`), `rbac` by the `policyrules` of roles; the roles that every cluster has are in `bootstrap`.
`impersonation` lets a user act as another, `celauthorizer` serves the `authorizer` variable of CEL expressions.
"""
