"""Expressions against the devices at hand.

`expressions` evaluates one on devices and explains it on one; `match` answers which devices a selector selects, on
which it fails and which it nearly selects (`model`, shown by `text`); `session` is the conversation of
``kubectl dra repl``.
"""
