# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a function Ingot compiles, which stay with TensorFlow, and the cut between them.

`placement` decides for each node, `partition` cuts the graph there.

The files, importers first:

* `partition`: cuts a function into parts at the nodes that stay with TensorFlow;
* `host_report`: the message about nodes that stay with TensorFlow;
* `constant_folding`: runs host-only nodes whose operands are constants once, at capture;
* `placement`: which nodes stay with TensorFlow: ops that only the host can run;
* `op_families`: the TensorFlow ops that are compiled, each with its family of rules;
* `list_groups`: which TensorLists of a cut function can stay inside compiled parts.
"""
