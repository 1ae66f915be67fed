"""Manifests as their authors wrote them: objects with the position of every field.

`tree` parses YAML and JSON into nodes with positions. `files` reads files and directories, splits documents and Lists
into objects, and finds the position of a field, or of a character in a field's text.
"""
