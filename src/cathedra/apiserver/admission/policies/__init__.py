"""Admission policies in CEL: `check` asks the validating ones, `mutating` applies the mutating ones, both with the
`parameters` that bindings select. `policyerrors` and `mutatingerrors` say what is wrong with one when it is written."""
