# SPDX-License-Identifier: Apache-2.0
"""Support: the lowest layer, which every layer may use. Each file is a tool of its own.

Errors, flags and reports:

* `diagnostics`: the errors that every layer raises, which users can act on;
* `diagnostic_json`: errors as JSON and back, so that a child process can report them to its parent;
* `arguments`: checks of the arguments of Ingot's Python functions: types, and text that cannot be
  encoded;
* `flags`: the one registry of flags (`INGOT_*`);
* `xla_flags`: XLA's own flags, as far as they mean something here;
* `tracing`: the log lines of the compiler, on standard error;
* `observing`: observations for reports: actions of front ends that make programs slow unnoticed;
* `timing`: the seconds of the phases of a compilation;
* `versions`: the versions of Ingot's dependencies: `ingot.show_versions()`, and a part of `ingot
  doctor`;
* `text`: small text helpers: the nearest known name, lists of numbers, readable sizes and times.

Values and graphs:

* `records`: decorators for dataclasses that are quick to declare, and to make instances
  of;
* `interning`: intern tables: equal values are one object, as long as it is alive;
* `recent`: tables of values in use and, up to a limit, of the most recent ones;
* `graphs`: walks over graphs that need no recursion;
* `levels`: levels of a graph that is cut at some of its items: items of a level run together;
* `trampoline`: recursion on a list instead of the machine's stack, limited only by memory;
* `regex`: regular expressions that are compiled when they are first used.

Modules that are imported late:

* `lazy`: names and functions that are imported when they are used;
* `import_hooks`: calls after the import of a module: how a front end waits for its framework;
* `later`: a result that a helper thread may have made before somebody needs it;
* `sources`: the state of Ingot's sources, by which caches know that they are stale.

Processes and threads:

* `platforms`: the platform that Ingot runs on; `import ingot` asks first of all;
* `forking`: deferring forks: a fork must not interrupt other threads' work, nor the locks that they
  hold;
* `worker`: a child process that answers messages, for code that may crash, hang or exhaust memory;
* `channel`: messages between two processes: over a socket, and large ones through shared memory;
* `deep_stack`: stack space for a recursion of bounded depth: on Python's stack, and on the
  machine's;
* `collector`: pausing Python's garbage collector while a large graph grows, or a compiler is
  imported;
* `freed_memory`: freed memory that the C library keeps for reuse instead of giving it back to the
  system;
* `quick_exit`: leaving a process without collecting garbage that the operating system frees anyway;
* `trusted_files`: files that only this user or the administrator can have written.
"""

import time

BEGAN = time.time()
"""The time of this process's first import of Ingot, in seconds since 1970."""
