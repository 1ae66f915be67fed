"""``kubectl dra`` (also ``cathedra dra``): read-only commands on the devices of a cluster, or of a dump of one.

`main` parses, with the table of commands. Each command is a module with ``add(parser)`` for its options and
``run(arguments)``, imported only when it is called. `source` reads the cluster or dump.
"""
