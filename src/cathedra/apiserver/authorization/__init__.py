"""Who may do what: attributes of a request in, a decision out (spec: apimachinery.md, section 15).

`authorizer` is the question and the answer. Those who answer: `node` for node agents (what concerns them is in
`noderelations`), `rbac` for everybody by `rules` of roles; the roles that every cluster has are in `bootstrap`.
`claimstatus` asks for the finer permissions of claim status, `asked` puts the questions of CEL expressions.
"""
