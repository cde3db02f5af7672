# SPDX-License-Identifier: Apache-2.0
"""Latency hiding: which collectives become pairs, in which order, and with how much memory."""

from __future__ import annotations

import ingot
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.schedule.latency_hiding import latency_hiding_scheduler
from ingot.passes.schedule.problem import problems_of
from ingot.passes.schedule.scheduler import memory_scheduler
from ingot.semantics.foreign_calls import DONE, START, exchange_of

HEAD = """HloModule m, replica_count=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
square { s = f32[#,#] parameter(0)
  ROOT d = f32[#,#] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
join { t = f32[#,#] parameter(0)  u = f32[#,#] parameter(1)  ROOT v = f32[#,#] add(t, u) }
"""


def scheduled(body: str, size: int) -> tuple[Module, bool]:
    """Return a module after both schedulers, and whether the second one changed it."""
    text = (HEAD + body).replace("#", str(size))
    module = ingot.parse_hlo(text.replace("kernel(", "fusion("))
    memory_scheduler.run(module, PassContext())
    return module, latency_hiding_scheduler.run(module, PassContext())


ONE = """ENTRY main { x = f32[#,#] parameter(0)  y = f32[#,#] parameter(1)
  s = f32[#,#] all-reduce(x), replica_groups={}, to_apply=add
  w = f32[#,#] kernel(y), kind=kOutput, calls=square
  ROOT r = f32[#,#] kernel(s, w), kind=kLoop, calls=join }"""


def test_work_comes_between_start_and_done() -> None:
    module, changed = scheduled(ONE, 512)
    assert changed
    order = [one.opcode for one in module.schedule[module.entry] if one.opcode != "parameter"]
    assert order == [START, "fusion", DONE, "fusion"]


def test_little_work_is_not_worth_a_pair() -> None:
    module, changed = scheduled(ONE, 8)
    assert not changed
    assert START not in {one.opcode for one in module.schedule[module.entry]}


def test_what_needs_the_result_hides_nothing() -> None:
    body = """ENTRY main { x = f32[#,#] parameter(0)
      s = f32[#,#] all-reduce(x), replica_groups={}, to_apply=add
      ROOT w = f32[#,#] kernel(s), kind=kOutput, calls=square }"""
    assert not scheduled(body, 512)[1]


def chain(layers: int) -> str:
    """Return products each of which has a sum of its own, which a last kernel reads."""
    lines = ["ENTRY main { x = f32[#,#] parameter(0)  h0 = f32[#,#] negate(x)"]
    for n in range(layers):
        lines += [
            f"  h{n + 1} = f32[#,#] kernel(h{n}), kind=kOutput, calls=square",
            f"  s{n} = f32[#,#] all-reduce(h{n + 1}), replica_groups={{}}, to_apply=add",
            f"  u{n} = f32[#,#] kernel(x, s{n}), kind=kLoop, calls=join",
        ]
    shapes = ", ".join(["f32[#,#]"] * layers)
    names = ", ".join(f"u{n}" for n in range(layers))
    return "\n".join([*lines, f"  ROOT r = ({shapes}) tuple({names}) }}"])


def exchanges(order: list[Instruction]) -> list[str]:
    begun = [exchange_of(one) for one in order if one.opcode == START or one.has(Trait.EXCHANGE)]
    return [one.name.rstrip("_") for one in begun]


def test_collectives_keep_their_order() -> None:
    module, changed = scheduled(chain(6), 512)
    assert changed
    order = module.schedule[module.entry]
    assert [name.partition(".")[0] for name in exchanges(order)] == [f"s{n}" for n in range(6)]
    first_done = next(n for n, one in enumerate(order) if one.opcode == DONE)
    assert sum(one.opcode == START for one in order[:first_done]) >= 2


def test_an_operand_lives_until_the_end_of_its_exchange() -> None:
    body = """ENTRY main { x = f32[#,#] parameter(0)  n = f32[#,#] negate(x)
      s = f32[#,#] all-reduce(n), replica_groups={}, to_apply=add
      w = f32[#,#] kernel(x), kind=kOutput, calls=square
      v = f32[#,#] kernel(w), kind=kOutput, calls=square
      ROOT r = (f32[#,#], f32[#,#]) tuple(s, v) }"""
    text = (HEAD + body).replace("#", "512").replace("kernel(", "fusion(")
    executable = ingot.compile(ingot.parse_hlo(text))
    order = executable.module.schedule[executable.module.entry]
    (start,) = [one for one in order if one.opcode == START]
    (operand,) = start.operands
    held = executable.assignment.slice_of(operand)
    between = order[order.index(start) + 1 : [one.opcode for one in order].index(DONE)]
    assert between
    for one in between:
        for _, where in executable.assignment.slices_of(one):
            assert where.allocation != held.allocation or where.offset != held.offset


def test_memory_is_limited() -> None:
    # Of 24 operands of 4 MB each not all may live at once.
    module = ingot.parse_hlo((HEAD + chain(24)).replace("#", "1024").replace("kernel(", "fusion("))
    memory_scheduler.run(module, PassContext())
    before, given = peak(module), 1024 * 1024 * 4
    assert latency_hiding_scheduler.run(module, PassContext())
    assert before < peak(module) <= before + (before + given) / 5


def peak(module: Module) -> int:
    """Return the peak of the entry, which is the last one that is scheduled."""
    found = 0
    for problem in problems_of(module):
        problem.taken = module.schedule[problem.computation]
        found = problem.peak(problem.taken)
    return found


def test_a_loop_hides_its_own() -> None:
    body = """cond { p = (s32[], f32[#,#], f32[#,#]) parameter(0)
      i = s32[] get-tuple-element(p), index=0  k = s32[] constant(5)
      ROOT l = pred[] compare(i, k), direction=LT }
    body { p = (s32[], f32[#,#], f32[#,#]) parameter(0)
      i = s32[] get-tuple-element(p), index=0  o = s32[] constant(1)  j = s32[] add(i, o)
      x = f32[#,#] get-tuple-element(p), index=1  y = f32[#,#] get-tuple-element(p), index=2
      s = f32[#,#] all-reduce(x), replica_groups={}, to_apply=add
      w = f32[#,#] kernel(y), kind=kOutput, calls=square
      ROOT r = (s32[], f32[#,#], f32[#,#]) tuple(j, s, w) }
    ENTRY main { a = f32[#,#] parameter(0)  b = f32[#,#] parameter(1)  z = s32[] constant(0)
      t = (s32[], f32[#,#], f32[#,#]) tuple(z, a, b)
      ROOT l = (s32[], f32[#,#], f32[#,#]) while(t), condition=cond, body=body }"""
    module, changed = scheduled(body, 512)
    assert changed
    loop = module.entry.root
    order = [one.opcode for one in module.schedule[loop.attributes.body]]
    assert order.index(START) < order.index("fusion") < order.index(DONE)


def ordered(layers: int) -> str:
    """Return gathers of layers; each begins before the product of the layer before it."""
    lines = ["ENTRY main { x = f32[#,#] parameter(0)  d = f32[#,#] negate(x)"]
    for n in range(layers):
        after = f", control-predecessors={{g{n}}}" if n else ""
        before = f", control-predecessors={{h{n - 1}, d}}" if n else ""
        lines += [
            f"  p{n} = f32[#,#] parameter({n + 1})",
            f"  g{n} = f32[#,#] all-reduce(p{n}), replica_groups={{}}, to_apply=add{before}",
            f"  h{n} = f32[#,#] kernel(x), kind=kOutput, calls=square{after}",
            f"  e{n} = f32[#,#] opt-barrier(g{n}), control-predecessors={{h{n}}}",
            f"  u{n} = f32[#,#] kernel(h{n}, e{n}), kind=kLoop, calls=join",
        ]
    shapes = ", ".join(["f32[#,#]"] * layers)
    names = ", ".join(f"u{n}" for n in range(layers))
    return "\n".join([*lines, f"  ROOT r = ({shapes}) tuple({names}) }}"])


def test_orders_of_a_start_and_an_end_are_kept() -> None:
    layers = 6
    module, changed = scheduled(ordered(layers), 512)
    assert changed
    place = {one.name: n for n, one in enumerate(module.schedule[module.entry])}
    for n in range(layers):
        dot = f".{n}" if n else ""
        start, end = place[f"all-reduce-start{dot}"], place[f"all-reduce-done{dot}"]
        assert start < place[f"h{n}"] < end
        assert end < place[f"e{n}"]
        if n:
            assert place[f"h{n - 1}"] < start
    for one in module.entry.instructions:
        if one.name.startswith("h") and one.name != "h0":
            assert [before.opcode for before in one.control_predecessors] == [START]


def test_no_limit_of_memory_ends_an_ordered_pair() -> None:
    # All begin before the first product, of 24 operands of 4 MB each, and end after the last.
    layers = 24
    lines = ["ENTRY main { x = f32[#,#] parameter(0)"]
    for n in range(layers):
        after = f", control-predecessors={{g{n - 1}}}" if n else ""
        lines.append(f"  n{n} = f32[#,#] kernel(x, x), kind=kLoop, calls=join{after}")
        lines.append(f"  g{n} = f32[#,#] all-reduce(n{n}), replica_groups={{}}, to_apply=add")
    lines.append(
        "  w = f32[#,#] kernel(x), kind=kOutput, calls=square, "
        f"control-predecessors={{g{layers - 1}}}"
    )
    for n in range(layers):
        lines.append(f"  e{n} = f32[#,#] opt-barrier(g{n}), control-predecessors={{w}}")
    names = ", ".join(f"e{n}" for n in range(layers))
    shapes = ", ".join(["f32[#,#]"] * (layers + 1))
    body = "\n".join([*lines, f"  ROOT r = ({shapes}) tuple({names}, w) }}"])
    module, changed = scheduled(body, 1024)
    assert changed
    order = [one.opcode for one in module.schedule[module.entry] if one.opcode in (START, DONE)]
    assert order == [START] * layers + [DONE] * layers
