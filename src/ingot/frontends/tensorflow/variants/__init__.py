# SPDX-License-Identifier: Apache-2.0
"""What a function is compiled for, and when it is compiled again.

One function has a variant for each combination of static values and sizes that its code depends on.

The files, importers first:

* `stored_programs`: programs on disk by the digest of their graph, so that lowering is skipped;
* `recompilations`: the message about a function that is compiled again, and why;
* `specialisation`: the values and sizes of a call that a function is specialised on;
* `list_rooms`: capacities of lists that grow in loops, learnt from calls that overflowed.
"""
