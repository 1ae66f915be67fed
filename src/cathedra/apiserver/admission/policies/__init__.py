"""ValidatingAdmissionPolicies: `check` asks them, `rules` says what is wrong with one when it is written."""
