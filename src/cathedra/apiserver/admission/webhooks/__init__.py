"""Webhooks: programs outside that change objects, or refuse them (spec: apimachinery.md, section 16).

`hooks` knows which exist and which a request concerns, `review` is what is said to them and what they answer, `caller`
says it over HTTPS, `calling` applies the failure policy, `mutating` and `validating` are the two plugins, and `rules`
checks configurations when they are written.
"""
