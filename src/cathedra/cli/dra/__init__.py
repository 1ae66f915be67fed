"""``kubectl dra`` (also ``cathedra dra``): questions about the devices of a cluster, or of a dump of one.

`main` is the way in and `commands` the table of its commands: each is a module with ``add(parser)`` for its options and
``run(arguments)``, imported only when it is called. `source` reads the cluster or the dump that all of them ask about,
`output` prints for people and for programs.
"""
