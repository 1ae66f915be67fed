"""Small files that must not be found half written, and directories that must not be read by others.

`cathedra.files.atomic` replaces a file in one step; `cathedra.files.durable` does so from an event loop while the loop
goes on; `cathedra.files.private` makes directories for this user alone and closes those that are open;
`cathedra.files.inotify` hears when names come and go in a directory. All stand on the standard library, because the
container shim and the device metadata reader may import nothing else.
"""
