"""Admission policies in CEL: `check` evaluates the validating ones, `mutating` applies the mutating ones, both with the
`parameters` that bindings select. `policyerrors` validates policies and bindings when they are written."""
