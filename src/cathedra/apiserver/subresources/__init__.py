"""The sub-resources that are more than another view of the object: binding, eviction, scale, token, log, exec."""
