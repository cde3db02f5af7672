# SPDX-License-Identifier: Apache-2.0
"""A typed subset of Python that becomes machine code, for the code that runs beside kernels.

A runtime's work (counting references, queues, locks, callbacks) reads best as a program. A native
function is a program in Python, with the types of C in its annotations:

    class Node(Struct):
        references: Atomic[i64]
        next: Node | None

    @exported("node_release")
    def release(node: Node | None) -> None:
        while node is not None and node.references.fetch_sub(1) == 1:
            following = node.next
            free(node)
            node = following

`Translation(module).add(release)` (`module.py`) translates it, and all that it calls, to functions
of an LLVM module, through the builder of `ingot.llvm`; `compiled(...)` returns such a module's
object, from the cache if it is there. `release(node)` runs it as plain Python on the same memory:
tests compare both, and a debugger steps through it. Pyright checks types, and tests for null.

Allowed are: `if`, `while`, `for ... in range(...)`, `break`, `continue`, `return`, assignments,
`+ - * // % & | ^ << >>`, comparisons, `and or not`, `a if c else b`, `min`, `max`, calls. Numbers
have the widths of their annotations and wrap; comparisons are signed, and operands of `//` and `%`
must not be negative; conversions are explicit (`i64(x)`, `Node.at(pointer)`). Expressions of values
that are known at translation (module constants, variables that a function closes over, an `if` over
those) are computed then. A parameter of a `Known` class is known too: the function is translated
once for each object that it is called with. Anything else is a `TranslationError` with file and
line.

Files, bottom up: `layout` (C structs), `types` (annotations), `memory` and `pointers` (their
meaning as plain Python), `functions` (the decorators), `statics` (globals), `operations`; then the
translation: `expressions`, `operators`, `calls`, `statements`, `sources`, `module`.

`docs/execution_abi.md` compares native functions with the same code on the builder, and lists the
code that stays there.

The other files, those that import others first:

* `references`: references of native functions: to other functions, and to globals of the module.
"""
