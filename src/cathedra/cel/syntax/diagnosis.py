"""stub"""

from cathedra.cel.errors import Issue


def diagnose(source, macros):
    return [Issue(0, "Syntax error")]
