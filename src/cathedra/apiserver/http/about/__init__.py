"""Documents about the server itself: `server` (health, version, the issuer of tokens), and `discovery` (groups,
resources and OpenAPI documents).
"""
