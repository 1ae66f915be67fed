"""Certificates that are asked for through the API, as kubelets do when they join.

`signers` says what each signer signs. `approving` approves what kubelets may have without being asked about, `signing`
signs what is approved, and `cleaning` deletes requests that are over.
"""
