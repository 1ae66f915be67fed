"""ResourceClaim and ResourceClaimTemplate.

An object of an older version comes through `conversion`, is filled in by `defaults` and freed of `disabled_fields`;
`validation` checks its spec, `status` its status, with the permissions in `access`; `strategy` brings them together.
`columns` shows a claim, `usage` charges it to quotas, and `extended` knows the claims that a pod pays for already.
"""
