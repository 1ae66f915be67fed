"""OpenAPI documents of the API, for kubectl explain, code generators and testers.

In the order in which data flows: `schemas` makes component schemas from the facts about the built-in types, `document`
puts them and the paths of each resource into one OpenAPI v3 document per group version, and `swagger` merges all of
them into the one document of OpenAPI v2.
"""
