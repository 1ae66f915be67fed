"""The sub-resources that are more than another door to the object: binding, eviction, scale, token, log, exec."""
