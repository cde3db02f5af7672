# SPDX-License-Identifier: Apache-2.0
"""The functions that TensorFlow registered, with Ingot's bodies in their place.

`replacement` keeps both, the original and what runs instead, and switches between them.

The files, importers first:

* `fast_call`: eager calls of compiled functions without TensorFlow's dispatch;
* `replacement`: one replaced function: what TensorFlow registered, and what runs instead;
* `one_op`: runs a function that is a single launch op without TensorFlow's function runtime;
* `list_arguments`: list arguments that are not one array, and so stay with TensorFlow;
* `hosting`: bodies of several launches and the nodes between them that stay with TensorFlow;
* `list_forms`: converts lists of lists made by compiled code for functions that TensorFlow runs;
* `failure_texts`: TensorFlow's wording for checks that failed in compiled functions;
* `session_failures`: the same where a session runs them;
* `dropped_launches`: frees the programs of functions that have been collected.
"""
