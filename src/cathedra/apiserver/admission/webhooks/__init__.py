"""Webhooks: programs outside that change objects, or refuse them (docs/spec/apimachinery.md §16).

`hooks` knows which exist and which a request concerns, `client` sends an AdmissionReview over HTTPS, `dispatcher`
applies the failure policy, and `mutating` and `validating` are the two plugins. The latter also checks webhook
configurations when they are written.
"""
