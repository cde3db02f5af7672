# SPDX-License-Identifier: Apache-2.0
"""Support: the lowest layer, which every layer may use.

It has errors that users can act on (`diagnostics`), the one registry of flags (`flags`, with
XLA's own in `xla_flags`), log lines (`tracing`), compile-time measurement (`timing`), walks over
graphs (`graphs`), the state of Ingot's sources (`sources`) and small text helpers.

The other files, those that import others first:

* `arguments`: checks of the arguments of Ingot's Python functions: types, and text that cannot be
  encoded;
* `collector`: pausing Python's garbage collector while a large graph grows, or a compiler is
  imported;
* `deep_stack`: stack space for a recursion of bounded depth: on Python's stack, and on the
  machine's;
* `diagnostic_json`: errors as JSON and back, so that a child process can report them to its parent;
* `freed_memory`: freed memory that the C library keeps for reuse instead of giving it back to the
  system;
* `import_hooks`: calls after the import of a module: how a front end waits for its framework;
* `interning`: intern tables: equal values are one object, as long as it is alive;
* `later`: a result that a helper thread may have made before somebody needs it;
* `lazy`: names and functions that are imported when they are used;
* `levels`: levels of a graph that is cut at some of its items: items of a level run together;
* `observing`: observations for reports: actions of front ends that make programs slow unnoticed;
* `platforms`: the platform that Ingot runs on; `import ingot` asks first of all;
* `quick_exit`: leaving a process without collecting garbage that the operating system frees anyway;
* `recent`: tables of values in use and, up to a limit, of the most recent ones;
* `regex`: regular expressions that are compiled when they are first used;
* `trampoline`: recursion on a list instead of the machine's stack, limited only by memory;
* `trusted_files`: files that only this user or the administrator can have written;
* `versions`: the versions of Ingot's dependencies: `ingot.show_versions()`, and a part of `ingot
  doctor`;
* `worker`: a child process that answers messages, for code that may crash, hang or exhaust memory;
* `channel`: messages between two processes: over a socket, and large ones through shared memory;
* `forking`: deferring forks: a fork must not interrupt other threads' work, nor the locks that they
  hold;
* `text`: small text helpers: the nearest known name, lists of numbers, readable sizes and times;
* `records`: record and mutable: dataclasses that are quick to declare, and to make instances of.
"""

import time

BEGAN = time.time()
"""The time of this process's first import of Ingot, in seconds since 1970."""
