"""Command lines of ``cathedra`` and ``kubectl dra``.

`entry` has the console scripts, `main` parses and dispatches, `options` defines each option once, `configuration` turns
parsed options into the configurations of `cathedra.cluster`, and `errors` lists the exceptions that are printed in one
line. Every other module is a command, imported only when it is called: `cluster` (whole clusters), `parts` (one part
alone), `classictestdriver`, `driver` (tools for drivers), `dra` (``kubectl dra``), `cdi` and `profiles`.
"""
