"""The verbs on objects: read, list, watch, create, update, patch, delete.

Every transport calls the same functions, so all requests have the same admission, defaults and validation.
"""
