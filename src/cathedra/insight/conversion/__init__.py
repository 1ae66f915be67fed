"""Conversion of manifests to another version of resource.k8s.io, or from device plugins; nothing else changes.

`convert` is the entry point: it computes the converted values and edits the text. `deviceplugin` does the same for
extended resources. `edits` changes text without touching comments, order or quotes. The edited text is read again and
compared with the computed values, so an edit that goes wrong is reported and never written.
"""
