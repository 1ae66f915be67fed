"""What the server tells about itself: `discovery` (`discoveryforms`), `openapi`, `health`, and the token `issuer`."""
