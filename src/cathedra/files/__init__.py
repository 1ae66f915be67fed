"""Crash-safe files, private directories, and notification of changes in directories.

`cathedra.files.atomic` replaces a file in one step; `cathedra.files.durable` does so from an event loop, with the sync
in a thread; `cathedra.files.private` creates directories that only this user can read, and files in memory;
`cathedra.files.inotify` reports names that appear in and vanish from a directory. All use the standard library alone,
because the container shim and the device metadata reader may import nothing else.
"""
