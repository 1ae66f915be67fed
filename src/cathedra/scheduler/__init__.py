"""The scheduler: selects a node for every pod, and devices for every claim of the pod.

It implements kube-scheduler's framework on a small scale, with the same extension points, plugin names, events and
messages. A pod passes through the packages in this order.

* `queue` keeps waiting pods, and wakes them when an event may have made them schedulable.
* `state` has the nodes and the pods on them, assumed ones included, and gives each cycle a snapshot.
* `framework` defines extension points, `Status`, `Diagnosis` and cluster events.
* `plugins` and `dynamicresources` filter nodes, score them, and write what must be written before binding.
* `profile` composes plugins, `nodesearch` finds the node, `bindingcycle` reserves and binds, `failure` reports,
  `eventhandlers` follow the API, and `scheduler` is the loop around them. `judging` is the façade for tools.

Every refusal is kept as data; the text of the event and the pod's condition are derived from it
(docs/spec/scheduling.md).
"""
