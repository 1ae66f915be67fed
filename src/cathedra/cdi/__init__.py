"""Container Device Interface: how a device gets into a container, described in files and applied to an OCI spec.

A driver writes a CDI spec file when it prepares a claim and answers with qualified names; the node agent finds the
names in the spec directories and applies their edits to the container it is about to start. Everything here is
independent of both. In the order in which data flows: `spec` (the document, its rules, and names of the form
vendor/class=name), `files` (reading and writing documents), `catalogue` (all documents of the directories: which name
means what), `edits` (applying to an OCI runtime spec), `annotations` (the old way of naming devices to a runtime).
"""
