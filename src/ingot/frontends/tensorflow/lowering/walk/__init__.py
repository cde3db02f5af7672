# SPDX-License-Identifier: Apache-2.0
"""The walk over a captured function's nodes, and what it does before and instead of calling a rule.

`graph` takes the nodes in order. It folds a node over small known arrays at compile time (`fold`),
makes open ranks known (`ranks`), and asks `rules` for the rule of the node's op.

* `graph`: the walk: a captured function's nodes, in order, each by its rule;
* `rules`: the rule of each op, from the families' tables, and what is said of an op that has none;
* `ranks`: the ranks that ops need of operands, for rules that would take any;
* `fold`: arithmetic at compile time on small known arrays, symbolic sizes included;
* `static`: the value of a single node outside of any lowering: constants, shapes, what is folded of
  them.
"""
