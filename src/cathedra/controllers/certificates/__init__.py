"""Controllers of CertificateSigningRequests, which kubelets create when they join.

`signers` has the rules of each signer. `approving` approves requests of kubelets automatically, `signing` signs
approved requests, and `cleaning` deletes old ones.
"""
