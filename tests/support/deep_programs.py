# SPDX-License-Identifier: Apache-2.0
"""Programs that nest or chain one construct many times, as HLO text.

Each function takes the depth and returns the text of a module; `PROGRAMS` names them all. Most
take one `f32[4]` and give one, so that they can be evaluated and executed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Program = Callable[[int], str]

_ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"


def _module(entry: Iterable[str], *computations: str) -> str:
    body = "\n  ".join(entry)
    return "\n\n".join(("HloModule deep", *computations, f"ENTRY main {{\n  {body}\n}}\n"))


def _chain(depth: int, first: Iterable[str], step: Callable[[int], str]) -> str:
    """Return an entry of `depth` instructions after `v0`; `{v}` is the one before."""
    lines = [*first]
    for number in range(1, depth + 1):
        lines.append(f"v{number} = " + step(number).replace("{v}", f"v{number - 1}"))
    lines[-1] = "ROOT " + lines[-1]
    return _module(lines, _ADD)


_INPUT = "v0 = f32[4] parameter(0)"


def elementwise(depth: int) -> str:
    """Sine and negation by turns."""
    return _chain(depth, [_INPUT], lambda n: f"f32[4] {'sine' if n % 2 else 'negate'}({{v}})")


def adds(depth: int) -> str:
    """Sums with one parameter: an accumulation."""
    return _chain(depth, [_INPUT, "x = f32[4] parameter(1)"], lambda n: "f32[4] add({v}, x)")


def doublings(depth: int) -> str:
    """Each value is used twice: 2^depth paths."""
    return _chain(depth, [_INPUT], lambda n: "f32[4] multiply({v}, {v})")


def pads(depth: int) -> str:
    """Pads of one element each, with values that differ, so that they do not merge."""
    first = [_INPUT, "z = f32[] constant(0)", "o = f32[] constant(1)"]
    return _chain(depth, first, lambda n: f"f32[{4 + n}] pad({{v}}, {'zo'[n % 2]}), padding=0_1")


def slices(depth: int) -> str:
    """Slices that take one element off, and a sine between each two."""

    def step(n: int) -> str:
        size = depth + 4 - (n + 1) // 2
        if n % 2:
            return f"f32[{size}] slice({{v}}), slice={{[1:{size + 1}]}}"
        return f"f32[{size}] sine({{v}})"

    return _chain(depth, [f"v0 = f32[{depth + 4}] parameter(0)"], step)


def pads_and_slices(depth: int) -> str:
    """A pad in front and a slice at the end by turns."""
    first = [_INPUT, "z = f32[] constant(0)"]
    return _chain(
        depth,
        first,
        lambda n: (
            "f32[5] pad({v}, z), padding=1_0" if n % 2 else "f32[4] slice({v}), slice={[0:4]}"
        ),
    )


def transposes(depth: int) -> str:
    """Transposes with a reverse between each two."""

    def step(n: int) -> str:
        shape = ("2,3", "3,2")[(n + 1) // 2 % 2]
        if n % 2:
            return f"f32[{shape}] transpose({{v}}), dimensions={{1,0}}"
        return f"f32[{shape}] reverse({{v}}), dimensions={{0}}"

    return _chain(depth, ["v0 = f32[2,3] parameter(0)"], step)


def reverses(depth: int) -> str:
    """Reverses with a sine between each two."""
    return _chain(
        depth,
        [_INPUT],
        lambda n: "f32[4] reverse({v}), dimensions={0}" if n % 2 else "f32[4] sine({v})",
    )


def reshapes(depth: int) -> str:
    """Reshapes with a transpose between each two: indices that divide and do not cancel."""

    def step(n: int) -> str:
        if n % 2:
            return f"f32[{'2,3' if n % 4 == 1 else '3,2'}] transpose({{v}}), dimensions={{1,0}}"
        return f"f32[{'3,2'}] reshape({{v}})" if n % 4 == 2 else "f32[3,2] reshape({v})"

    def shape(n: int) -> str:
        if n % 2:
            return "f32[2,3] transpose({v}), dimensions={1,0}"
        return "f32[3,2] reshape({v})"

    del step
    return _chain(depth, ["v0 = f32[3,2] parameter(0)"], shape)


def concatenates(depth: int) -> str:
    """Each joins the value so far with one element."""
    return _chain(
        depth,
        [_INPUT, "x = f32[1] parameter(1)"],
        lambda n: f"f32[{4 + n}] concatenate({{v}}, x), dimensions={{0}}",
    )


def broadcasts(depth: int) -> str:
    """Broadcasts, each summed again."""
    first = [_INPUT, "z = f32[] constant(0)"]
    return _chain(
        depth,
        first,
        lambda n: (
            "f32[4,3] broadcast({v}), dimensions={0}"
            if n % 2
            else "f32[4] reduce({v}, z), dimensions={1}, to_apply=add"
        ),
    )


def gathers(depth: int) -> str:
    """Gathers of the value by the same indices."""
    first = [_INPUT, "i = s32[4] parameter(1)"]
    return _chain(
        depth,
        first,
        lambda n: (
            "f32[4] gather({v}, i), offset_dims={}, collapsed_slice_dims={0}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1}"
        ),
    )


def scatters(depth: int) -> str:
    """Scatters into the value by the same indices."""
    first = [_INPUT, "i = s32[4] parameter(1)"]
    return _chain(
        depth,
        first,
        lambda n: (
            "f32[4] scatter({v}, i, v0), update_window_dims={}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
        ),
    )


def dynamic_slices(depth: int) -> str:
    """Dynamic slices that take one element off each."""
    return _chain(
        depth,
        [f"v0 = f32[{depth + 4}] parameter(0)", "i = s32[] parameter(1)"],
        lambda n: (
            f"f32[{depth + 4 - n}] dynamic-slice({{v}}, i), dynamic_slice_sizes={{{depth + 4 - n}}}"
        ),
    )


def updates(depth: int) -> str:
    """Dynamic-update-slices of one element."""
    first = [_INPUT, "i = s32[] parameter(1)", "x = f32[1] parameter(2)"]
    return _chain(depth, first, lambda n: "f32[4] dynamic-update-slice({v}, x, i)")


def reduces(depth: int) -> str:
    """Reduce windows of two elements, which each take one off."""
    first = [f"v0 = f32[{depth + 4}] parameter(0)", "z = f32[] constant(0)"]
    return _chain(
        depth,
        first,
        lambda n: f"f32[{depth + 4 - n}] reduce-window({{v}}, z), window={{size=2}}, to_apply=add",
    )


def selects(depth: int) -> str:
    """Selects between the value and its negation."""
    first = [_INPUT, "p = pred[4] parameter(1)", "x = f32[4] parameter(2)"]
    return _chain(
        depth, first, lambda n: "f32[4] select(p, {v}, x)" if n % 2 else "f32[4] select(p, x, {v})"
    )


def dots(depth: int) -> str:
    """Matrix products."""
    return _chain(
        depth,
        ["v0 = f32[4,4] parameter(0)"],
        lambda n: "f32[4,4] dot({v}, v0), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )


def control_edges(depth: int) -> str:
    """Each instruction has to come after the one before, by a control edge only."""
    lines = ["x = f32[4] parameter(0)", "v0 = f32[4] sine(x)"]
    for n in range(1, depth + 1):
        lines.append(f"v{n} = f32[4] cosine(x), control-predecessors={{v{n - 1}}}")
    lines[-1] = "ROOT " + lines[-1]
    return _module(lines)


def tuple_chain(depth: int) -> str:
    """A tuple and its elements by turns."""
    lines = [
        "x = f32[4] parameter(0)",
        "y = f32[4] parameter(1)",
        "t0 = (f32[4], f32[4]) tuple(x, y)",
    ]
    for n in range(1, depth + 1):
        lines.append(f"a{n} = f32[4] get-tuple-element(t{n - 1}), index=0")
        lines.append(f"b{n} = f32[4] get-tuple-element(t{n - 1}), index=1")
        lines.append(f"t{n} = (f32[4], f32[4]) tuple(b{n}, a{n})")
    lines.append(f"ROOT r = f32[4] get-tuple-element(t{depth}), index=0")
    return _module(lines)


# ---- computations that call computations


def _nest(depth: int, innermost: str, around: Callable[[int], str], entry: Iterable[str]) -> str:
    """Return computations `c0` to `c<depth>`: each calls the one before, the entry the last."""
    return _module(entry, _ADD, innermost, *map(around, range(1, depth + 1)))


_INNERMOST = "c0 { p = f32[4] parameter(0)  ROOT r = f32[4] sine(p) }"


def calls(depth: int) -> str:
    """A call in a call."""
    return _nest(
        depth,
        _INNERMOST,
        lambda n: (
            f"c{n} {{ p = f32[4] parameter(0)  q = f32[4] negate(p)  "
            f"ROOT r = f32[4] call(q), to_apply=c{n - 1} }}"
        ),
        [_INPUT, f"ROOT r = f32[4] call(v0), to_apply=c{depth}"],
    )


def returning_calls(depth: int) -> str:
    """A call in a call whose result each caller returns and uses besides."""
    state = "(f32[4], f32[4])"
    inner = f"c0 {{ p = f32[4] parameter(0)  s = f32[4] sine(p)  ROOT r = {state} tuple(s, p) }}"

    def around(n: int) -> str:
        return (
            f"c{n} {{ p = f32[4] parameter(0)  c = {state} call(p), to_apply=c{n - 1}  "
            "x = f32[4] get-tuple-element(c), index=0  y = f32[4] get-tuple-element(c), index=1  "
            f"z = f32[4] {'add' if n % 2 else 'maximum'}(x, y)  ROOT r = {state} tuple(x, z) }}"
        )

    entry = [
        _INPUT,
        f"c = {state} call(v0), to_apply=c{depth}",
        "ROOT r = f32[4] get-tuple-element(c), index=1",
    ]
    return _nest(depth, inner, around, entry)


def doubling_calls(depth: int) -> str:
    """Each computation calls the next twice: 2^depth when all is inlined."""
    return _nest(
        depth,
        _INNERMOST,
        lambda n: (
            f"c{n} {{ p = f32[4] parameter(0)  q = f32[4] call(p), to_apply=c{n - 1}  "
            f"ROOT r = f32[4] call(q), to_apply=c{n - 1} }}"
        ),
        [_INPUT, f"ROOT r = f32[4] call(v0), to_apply=c{depth}"],
    )


def fusions(depth: int) -> str:
    """A fusion in a fusion."""
    return _nest(
        depth,
        _INNERMOST,
        lambda n: (
            f"c{n} {{ p = f32[4] parameter(0)  q = f32[4] negate(p)  "
            f"ROOT r = f32[4] fusion(q), kind=kLoop, calls=c{n - 1} }}"
        ),
        [_INPUT, f"ROOT r = f32[4] fusion(v0), kind=kLoop, calls=c{depth}"],
    )


def maps(depth: int) -> str:
    """A map whose function maps."""
    return _nest(
        depth,
        "c0 { p = f32[] parameter(0)  ROOT r = f32[] sine(p) }",
        lambda n: (
            f"c{n} {{ p = f32[] parameter(0)  q = f32[] negate(p)  "
            f"ROOT r = f32[] map(q), dimensions={{}}, to_apply=c{n - 1} }}"
        ),
        [_INPUT, f"ROOT r = f32[4] map(v0), dimensions={{0}}, to_apply=c{depth}"],
    )


def combiners(depth: int) -> str:
    """A reduce whose combiner calls another."""
    return _nest(
        depth,
        "c0 { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }",
        lambda n: (
            f"c{n} {{ a = f32[] parameter(0)  b = f32[] parameter(1)  "
            f"ROOT r = f32[] call(a, b), to_apply=c{n - 1} }}"
        ),
        [
            _INPUT,
            "z = f32[] constant(0)",
            f"ROOT r = f32[] reduce(v0, z), dimensions={{0}}, to_apply=c{depth}",
        ],
    )


def reducers(depth: int) -> str:
    """A reduce whose combiner reduces."""
    return _nest(
        depth,
        "c0 { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }",
        lambda n: (
            f"c{n} {{ a = f32[] parameter(0)  b = f32[] parameter(1)  "
            "v = f32[1] reshape(b)  "
            f"ROOT r = f32[] reduce(v, a), dimensions={{0}}, to_apply=c{n - 1} }}"
        ),
        [
            _INPUT,
            "z = f32[] constant(0)",
            f"ROOT r = f32[] reduce(v0, z), dimensions={{0}}, to_apply=c{depth}",
        ],
    )


def comparators(depth: int) -> str:
    """A sort whose comparator calls another."""
    return _nest(
        depth,
        "c0 { a = f32[] parameter(0)  b = f32[] parameter(1)  "
        "ROOT r = pred[] compare(a, b), direction=LT }",
        lambda n: (
            f"c{n} {{ a = f32[] parameter(0)  b = f32[] parameter(1)  x = f32[] negate(a)  "
            f"y = f32[] negate(b)  ROOT r = pred[] call(x, y), to_apply=c{n - 1} }}"
        ),
        [_INPUT, f"ROOT r = f32[4] sort(v0), dimensions={{0}}, to_apply=c{depth}"],
    )


def long_combiner(depth: int) -> str:
    """A reduce whose combiner is a long chain."""
    lines = ["a = f32[] parameter(0)", "v0 = f32[] parameter(1)"]
    lines += [f"v{n} = f32[] {'sine' if n % 2 else 'negate'}(v{n - 1})" for n in range(1, depth)]
    lines += [f"ROOT r = f32[] add(a, v{depth - 1})"]
    body = "\n  ".join(lines)
    return _module(
        [
            _INPUT,
            "z = f32[] constant(0)",
            "ROOT r = f32[] reduce(v0, z), dimensions={0}, to_apply=c",
        ],
        f"c {{\n  {body}\n}}",
    )


def whiles(depth: int) -> str:
    """A loop in a loop: each runs its body once, as a counter goes from 0 to 1."""
    state = "(s32[], f32[4])"
    condition = (
        f"once {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  "
        "n = s32[] constant(1)  ROOT r = pred[] compare(i, n), direction=LT }"
    )
    ends = "one = s32[] constant(1)  zero = s32[] constant(0)"

    def around(n: int) -> str:
        return (
            f"c{n} {{ p = {state} parameter(0)  x = f32[4] get-tuple-element(p), index=1  {ends}  "
            f"t = {state} tuple(zero, x)  w = {state} while(t), condition=once, body=c{n - 1}  "
            f"y = f32[4] get-tuple-element(w), index=1  z = f32[4] sine(y)  "
            f"ROOT r = {state} tuple(one, z) }}"
        )

    innermost = (
        f"c0 {{ p = {state} parameter(0)  x = f32[4] get-tuple-element(p), index=1  {ends}  "
        f"y = f32[4] sine(x)  ROOT r = {state} tuple(one, y) }}"
    )
    entry = [
        _INPUT,
        "zero = s32[] constant(0)",
        f"t = {state} tuple(zero, v0)",
        f"w = {state} while(t), condition=once, body=c{depth}",
        "ROOT r = f32[4] get-tuple-element(w), index=1",
    ]
    return _module(entry, condition, innermost, *map(around, range(1, depth + 1)))


def counted_loops(depth: int) -> str:
    """A loop in a loop whose trip count nothing here tells: the bound is a parameter."""
    state = "(s32[], s32[], f32[4])"
    condition = (
        f"less {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  "
        "n = s32[] get-tuple-element(p), index=1  "
        "ROOT r = pred[] compare(i, n), direction=LT }"
    )

    def body(n: int) -> str:
        inner = (
            f"t = {state} tuple(zero, m, x)  w = {state} while(t), condition=less, body=c{n - 1}  "
            "y = f32[4] get-tuple-element(w), index=2"
        )
        return (
            f"c{n} {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  "
            f"m = s32[] get-tuple-element(p), index=1  x = f32[4] get-tuple-element(p), index=2  "
            f"one = s32[] constant(1)  zero = s32[] constant(0)  j = s32[] add(i, one)  "
            f"{inner if n else 'y = f32[4] copy(x)'}  z = f32[4] sine(y)  "
            f"ROOT r = {state} tuple(j, m, z) }}"
        )

    entry = [
        _INPUT,
        "n = s32[] parameter(1)",
        "zero = s32[] constant(0)",
        f"t = {state} tuple(zero, n, v0)",
        f"w = {state} while(t), condition=less, body=c{depth}",
        "ROOT r = f32[4] get-tuple-element(w), index=2",
    ]
    return _module(entry, condition, *map(body, range(depth + 1)))


def ifs(depth: int) -> str:
    """A conditional in a branch of a conditional."""
    other = "other { p = f32[4] parameter(0)  ROOT r = f32[4] negate(p) }"
    zero = "z = f32[] constant(0)"
    sum_of = "s = f32[] reduce(q, z), dimensions={0}, to_apply=add"

    def around(n: int) -> str:
        return (
            f"c{n} {{ p = f32[4] parameter(0)  q = f32[4] sine(p)  {zero}  {sum_of}  "
            f"i = pred[] compare(s, z), direction=GT  "
            f"ROOT r = f32[4] conditional(i, q, q), true_computation=c{n - 1}, "
            "false_computation=other }"
        )

    entry = [
        _INPUT,
        "b = pred[] parameter(1)",
        f"ROOT r = f32[4] conditional(b, v0, v0), true_computation=c{depth}, "
        "false_computation=other",
    ]
    return _module(entry, _ADD, other, _INNERMOST, *map(around, range(1, depth + 1)))


def known_ifs(depth: int) -> str:
    """A conditional in a branch of a conditional: which branch is taken is written in each."""
    other = "other { p = f32[4] parameter(0)  ROOT r = f32[4] negate(p) }"

    def around(n: int) -> str:
        return (
            f"c{n} {{ p = f32[4] parameter(0)  q = f32[4] sine(p)  i = pred[] constant(true)  "
            f"ROOT r = f32[4] conditional(i, q, q), true_computation=c{n - 1}, "
            "false_computation=other }"
        )

    entry = [
        _INPUT,
        "b = pred[] parameter(1)",
        f"ROOT r = f32[4] conditional(b, v0, v0), true_computation=c{depth}, "
        "false_computation=other",
    ]
    return _module(entry, other, _INNERMOST, *map(around, range(1, depth + 1)))


def switch(depth: int) -> str:
    """One conditional of many branches, no two alike."""
    branches = [
        f"c{n} {{ p = f32[4] parameter(0)  k = f32[] constant({n})  "
        "b = f32[4] broadcast(k), dimensions={}  ROOT r = f32[4] add(p, b) }"
        for n in range(depth)
    ]
    operands = ", ".join(["v0"] * depth)
    names = ", ".join(f"c{n}" for n in range(depth))
    entry = [
        _INPUT,
        "i = s32[] parameter(1)",
        f"ROOT r = f32[4] conditional(i, {operands}), branch_computations={{{names}}}",
    ]
    return _module(entry, *branches)


def asyncs(depth: int) -> str:
    """An async computation in an async computation."""

    def around(n: int) -> str:
        return (
            f"c{n} {{ p = f32[4] parameter(0)  q = f32[4] negate(p)  "
            f"s = ((f32[4]), f32[4], u32[]) call-start(q), to_apply=c{n - 1}  "
            "ROOT r = f32[4] call-done(s) }"
        )

    return _nest(
        depth, _INNERMOST, around, [_INPUT, f"ROOT r = f32[4] call(v0), to_apply=c{depth}"]
    )


def async_chain(depth: int) -> str:
    """One async operation with many updates."""
    state = "((f32[4]), f32[4], u32[])"
    lines = [_INPUT, f"s0 = {state} call-start(v0), to_apply=c0"]
    lines += [f"s{n} = {state} call-update(s{n - 1})" for n in range(1, depth + 1)]
    lines += [f"ROOT r = f32[4] call-done(s{depth})"]
    return _module(lines, _INNERMOST)


# ---- symbolic sizes


def symbolic_pads(depth: int) -> str:
    """Pads of a symbolic size: it stays a sum."""
    return _chain(
        depth,
        ["v0 = f32[?n] parameter(0)", "z = f32[] constant(0)", "o = f32[] constant(1)"],
        lambda n: f"f32[?(n+{n})] pad({{v}}, {'zo'[n % 2]}), padding=0_1",
    )


PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (
        elementwise, adds, doublings, pads, slices, pads_and_slices, transposes, reverses,
        reshapes, concatenates, broadcasts, gathers, scatters, dynamic_slices, updates, reduces,
        selects, dots, control_edges, tuple_chain, calls, returning_calls,
        doubling_calls, fusions, maps, comparators, reducers, known_ifs,
        combiners, long_combiner, whiles, counted_loops, ifs, switch, asyncs, async_chain,
        symbolic_pads,
    )
}  # fmt: skip
