"""From text to syntax tree.

`tokens` cuts the text, `literals` gives tokens their values, `parser` builds the `tree` and lets `macros` expand in it.
If something is wrong, `recognizer` reads the text once more as Kubernetes' parser does, and `diagnosis` collects what
there is to say.
"""
