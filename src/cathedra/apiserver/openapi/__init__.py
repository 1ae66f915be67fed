"""OpenAPI: what the API looks like, for clients that ask: kubectl explain, code generators, testers.

In the order in which data flows: `schemas` makes component schemas from the facts about the built-in types (`enums`
and `descriptions` add to them), `operations` the paths of one resource, `document` puts both into one OpenAPI v3
document per group version, and `swagger` merges all of them into the one document of OpenAPI v2.
Their parts are typed by `fragments`.
"""
