"""What can be done to objects: read, list, watch, create, update, patch, delete.

HTTP and in-process callers come through the same functions, so both meet the same admission, defaults and validation.
"""
