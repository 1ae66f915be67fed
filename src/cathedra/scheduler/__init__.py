"""The scheduler: gives every pod its node, and every claim of the pod its devices.

It is kube-scheduler's framework in small, with the same extension points, plugin names, events and messages. A pod
walks through the packages in this order:

* `queue` keeps the pods that wait, and wakes them when an event may have made them schedulable;
* `state` knows nodes and the pods on them, the assumed ones included, and hands a snapshot to each cycle;
* `framework` has the words: extension points, `Status`, `Diagnosis`, cluster events;
* `plugins` and `dynamicresources` decide: which nodes will do, which is best, what to write before binding;
* `profile` composes plugins, `nodesearch` finds the node, `bindingcycle` holds and binds it, `failure` reports,
  `eventhandlers` follow the API, and `scheduler` is the loop around them.

Every «no» is kept as data; the event's text and the pod's condition are views of it (docs/spec/scheduling.md).
"""
