# SPDX-License-Identifier: Apache-2.0
"""A typed subset of Python that becomes machine code, for the code that runs beside kernels.

What a runtime does (counting references, queues, locks, callbacks) reads best as a program. A
native function is one, in Python, with the types of C in its annotations:

    class Node(Struct):
        references: Atomic[i64]
        next: Node | None

    @exported("node_release")
    def release(node: Node | None) -> None:
        while node is not None and node.references.fetch_sub(1) == 1:
            following = node.next
            free(node)
            node = following

`Translation(module).add(release)` (`module.py`) makes it, and all that it calls, functions of an
LLVM module, through the builder of `ingot.llvm`; `compiled(...)` gives such a module's object, from
the cache if it is there. `release(node)` runs it as plain Python on the same memory: tests compare
both, and a debugger steps through it. Pyright checks types, and whether code looks for null.

Allowed are: `if`, `while`, `for ... in range(...)`, `break`, `continue`, `return`, assignments,
`+ - * // % & | ^ << >>`, comparisons, `and or not`, `a if c else b`, calls. Numbers have the widths
of their annotations and wrap; comparisons are signed, `//` and `%` are of numbers that are not
negative; conversions are written (`i64(x)`, `Node.at(pointer)`). Whatever translation knows (module
constants, what a function closes over, an `if` over those) is computed then. Anything else is a
`TranslationError` with file and line.

Files, bottom up: `layout` (C structs), `types` (annotations), `memory` and `pointers` (their
meaning as plain Python), `functions` (the decorators), `statics` (globals), `operations`; then the
translation: `expressions`, `operators`, `calls`, `statements`, `sources`, `module`.
"""
