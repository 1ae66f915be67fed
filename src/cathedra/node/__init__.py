"""The node agent: plugins, prepared claims, containers."""
