"""`convert`: manifests in another version of resource.k8s.io, or from device plugins, with nothing else changed.

`values` says what the result is, `edits` changes the text without touching comments, order or quotes, `versions` brings
both together for versions and `deviceplugin` for extended resources; what the text has become is read again and
compared with what it should be. `convert` is the way in, `model` the answer.
"""
