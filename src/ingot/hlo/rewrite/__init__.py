# SPDX-License-Identifier: Apache-2.0
"""Rewriting: the pass base class and runner, pattern rules and their worklist driver.

* `bisect`: finds the pass, and the rewrite in it, that made a module bad;
* `driver`: applies rules to a computation until none fires, with a worklist;
* `op_pass`: bases of the passes that visit the ops of some opcodes, one by one;
* `ordering`: ordering constraints of pipelines: which pass comes before which, with the reason;
* `rule`: a pattern, a replacement, the algebra as text, the licence that the rule needs;
* `runner`: the runner of passes over modules: which pass of a pipeline runs next, and when none has
  to;
* `census`: a census of a module, in words, for passes that declare what they look for
  (`Pass.concerns`);
* `fingerprint`: a hash of a module's structure, the same in every process;
* `pass_runner`: one pass at a time, of any IR: what a runner does for every pass that it runs;
* `pattern`: the expression that a rule matches, written as an expression;
* `pass_base`: the base class of passes, their context, and how they are grouped;
* `licence`: floating-point licences: by how much a rewrite may change results.
"""
