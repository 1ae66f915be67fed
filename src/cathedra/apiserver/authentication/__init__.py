"""Authentication: client certificates, bearer tokens, and the anonymous rest (docs/spec/apimachinery.md §14).

`user` is what is found out, `authenticator` finds it out. `certificates` and
`pki` make and keep the cluster's certificates; `serviceaccounts` issues and knows tokens, signed with the key of
`signing`.
"""
