"""Documents about the server itself: `server` (health, version, the issuer of tokens), `discovery` and `openapi`."""
