"""Webhooks: programs outside that change objects, or refuse them (docs/spec/apimachinery.md §16).

`hooks` knows which exist and which a request concerns, `review` is the question and the answer, `client` sends it over
HTTPS, `dispatcher` applies the failure policy, and `mutating` and `validating` are the two plugins. The latter also
checks webhook configurations when they are written.
"""
