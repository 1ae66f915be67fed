"""Custom resources: kinds that come and go while the server runs.

In the order in which a definition passes through: `definitions` checks it, `schema` reads its structural schemas,
`objects` makes a struct type of each version, `kinds` puts them into a `ResourceDefinition` with its `columns`, and
holds the rules of writing instances (with `validation`, the `formats` of texts and the CEL of `rules`).
`cathedra.apiserver.customresources` adds all that to the running server and takes it away again
(docs/spec/apimachinery.md §17).
"""
