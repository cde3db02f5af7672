# SPDX-License-Identifier: Apache-2.0
"""The launch op's native functions as plain Python: locks and references of variables, guards.

Over a TensorFlow that is made of Python functions. What must hold on every way out: no variable is
locked, and nobody holds a reference that was not held before.
"""

from __future__ import annotations

import ctypes

import pytest

from ingot.frontends.tensorflow.api import capi, series
from ingot.frontends.tensorflow.api.kernel_api import Status
from ingot.frontends.tensorflow.api.variable_objects import TensorBuffer, TensorObject, Variable
from ingot.frontends.tensorflow.launches import variable_code
from ingot.frontends.tensorflow.launches.launch_inputs import Call
from ingot.frontends.tensorflow.launches.launch_records import (
    DONE,
    NO_VARIANT,
    Guard,
    LaunchRecord,
    VariableRow,
    Variant,
)
from ingot.frontends.tensorflow.launches.launch_variants import find
from ingot.native.functions import replaced
from ingot.native.pointers import Array, Pointer, Structs
from ingot.native.types import i8, i64
from ingot.runtime.records import Buffers, Dims, Output, Param, Program

SIZE = 3


def _structs(of, count):
    memory = (of.c_layout.structure * count)()
    return Structs[of](ctypes.addressof(memory), memory)


class World:
    """Variables (initialized, of `SIZE` elements), and a launch that takes and writes some."""

    def __init__(self, numbers, written=(), guard=None):
        self.locked, self.status, self.ran, self.moved = [], [0, None], [], []
        self.kept = []
        self.variables = _structs(Variable, 3)
        for number in range(3):
            variable, tensor = self.variables[number], self.tensor(number)
            variable.references.store(1)
            variable.is_initialized = 1
            tensor.elements, tensor.buffer = SIZE, self.buffer()
        self.numbers = numbers
        self.call = self.new_call(numbers, written, guard)

    def tensor(self, number):
        return TensorObject.at(self.variables[number].tensor)

    def buffer(self):
        made = TensorBuffer.on_stack()
        made.references.store(1)
        data = Array[i8].on_stack(SIZE)
        made.data = data
        self.kept += [made, data]
        return made

    def new_call(self, numbers, written, guard):
        count = len(numbers)
        record, rows = LaunchRecord.on_stack(), _structs(VariableRow, count)
        params, outputs = _structs(Param, count), _structs(Output, len(written))
        dims = Array[i64].on_stack(1)
        dims[0] = SIZE
        for index in range(count):
            rows[index].input, rows[index].result, rows[index].elements = index, -1, SIZE
            params[index].dims, params[index].rank = dims, 1
        for result, index in enumerate(written):
            rows[index].result = result
            outputs[result].alias_param = index
        record.num_inputs = record.num_variables = count
        record.variables = rows
        variant, program = Variant.on_stack(), Program.on_stack()
        program.params, program.outputs = params, outputs
        ranks = Array[i64].on_stack(count)
        call = Call.on_stack()
        call.record, call.status, call.ranks = record, Status(7), ranks
        data, rows_of_dims = Buffers.on_stack(count), Dims.on_stack(count)
        call.data, call.dims = data, rows_of_dims
        for index in range(count):
            ranks[index], call.dims[index] = 1, dims
        variant.ranks, variant.program = ranks, program
        if guard is not None:
            guards, wanted = _structs(Guard, 1), ctypes.create_string_buffer(guard)
            guards[0].bytes, guards[0].data = len(guard), Pointer(ctypes.addressof(wanted))
            variant.guards, variant.num_guards = guards, 1
            self.kept += [guards, wanted]
        record.variants.store(variant)
        self.kept += [record, rows, params, outputs, dims, variant, program, ranks, data]
        self.kept += [rows_of_dims]
        return call

    def attempt(self, monkeypatch, is_good=True):
        def run(call, variant, more):
            self.ran.append(more)
            self.status[0] = 0 if is_good else 3
            return DONE

        def lock(mutex):
            assert mutex.address not in self.locked, "a deadlock"
            assert self.locked == sorted(self.locked), "locked in another order"
            self.locked.append(mutex.address)

        monkeypatch.setattr(variable_code, "run_any", run)
        functions = {
            series.LOCK: lock,
            series.UNLOCK: lambda mutex: self.locked.remove(mutex.address),
            series.LOOKUP: self.look_up,
            "_ZN10tensorflow15HandleFromInputEPNS_15OpKernelContextEi": lambda _, i: Pointer(i + 1),
            "_ZN10tensorflow6TensorC1ENS_8DataTypeERKNS_11TensorShapeE": self.construct,
            "_ZN10tensorflow6TensorD1Ev": lambda tensor: None,
            "_ZN10tensorflow6TensoraSEOS0_": self.move,
            "TF_GetCode": lambda status: self.status[0],
            "TF_SetStatus": self.set_status,
        }
        with replaced(**functions):
            return variable_code.attempt_with_variables(self.call)

    def look_up(self, outcome, context, handle, slot):
        number = self.numbers[handle.address - 1]
        if number is not None:
            variable = self.variables[number]
            variable.references.fetch_add(1)
            Array[Variable].at(slot)[0] = variable

    def construct(self, tensor, kind, shape):
        tensor.elements, tensor.buffer = SIZE, self.buffer()

    def move(self, target, source):
        target.buffer = source.buffer
        self.moved.append(target.address)
        return target

    def set_status(self, status, code, text):
        self.status = [code, text]

    def is_balanced(self):
        counts = [self.variables[number].references.load() for number in range(3)]
        return not self.locked and counts == [1, 1, 1]


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [([0, None, 2], "NOT_FOUND"), ([2, 0, 2], "TWICE"), ([1, 2], "NOT_READY")],
)
def test_errors_leave_nothing_locked(monkeypatch, numbers, problem):
    world = World(numbers, written=[0] if problem == "TWICE" else [])
    world.variables[1].is_initialized = 0
    if problem == "TWICE":
        world.variables[1].is_initialized = 1
    assert world.attempt(monkeypatch) == DONE
    code = capi.FAILED_PRECONDITION if problem == "NOT_FOUND" else capi.INVALID_ARGUMENT
    assert world.status == [code, getattr(variable_code, problem)]
    assert world.ran == []
    assert world.is_balanced()


def test_a_variable_that_is_read_twice_is_locked_once(monkeypatch):
    world = World([2, 0, 2])
    assert world.attempt(monkeypatch) == DONE
    assert len(world.ran) == 1
    assert world.call.data[0] == world.call.data[2] == world.tensor(2).buffer.data
    assert world.is_balanced()


def test_read_variables_are_held_and_unlocked_while_the_program_runs(monkeypatch):
    world = World([2, 0])
    buffers = [world.tensor(number).buffer for number in (2, 0)]
    before = [world.call.data[index] for index in range(2)]
    assert before == [None, None]
    assert world.attempt(monkeypatch) == DONE
    assert [world.call.data[index] for index in range(2)] == [each.data for each in buffers]
    assert [each.references.load() for each in buffers] == [1, 1]
    assert world.is_balanced()


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("is_good", [False, True])
def test_written_variables_are_replaced_if_somebody_else_holds_them(
    monkeypatch, is_shared, is_good
):
    world = World([1, 0], written=[1])
    old = world.tensor(0).buffer
    old.references.store(1 + is_shared)
    assert world.attempt(monkeypatch, is_good) == DONE
    (more,) = world.ran
    assert (more[0] == old.data) is not is_shared
    has_moved = is_shared and is_good
    assert (world.tensor(0).buffer != old) is has_moved
    assert world.moved == ([world.tensor(0).address] if has_moved else [])
    assert old.references.load() == 1 + is_shared
    assert world.is_balanced()


@pytest.mark.parametrize(("value", "expected"), [(b"ab", DONE), (b"ax", NO_VARIANT)])
def test_guards_choose_by_values_of_variables(monkeypatch, value, expected):
    world = World([0], guard=b"ab")
    ctypes.memmove(world.tensor(0).buffer.data.address, value, 2)
    assert world.attempt(monkeypatch) == expected
    assert len(world.ran) == (expected == DONE)
    # `miss` sees no value of this variable: it is not small.
    assert (world.call.data[0] is None) is (expected == NO_VARIANT)
    assert world.is_balanced()


def test_sizes_choose_the_newest_variant_that_fits():
    world = World([0])
    (older,) = (world.call.record.variants.load(),)
    newer, program = Variant.on_stack(), Program.on_stack()
    newer.ranks, newer.program, newer.next = older.ranks, program, older
    params, dims = _structs(Param, 1), Array[i64].on_stack(1)
    program.params, params[0].dims, params[0].rank = params, dims, 1
    world.call.record.variants.store(newer)
    for size, expected in ((-1, newer), (SIZE, newer), (SIZE + 1, older)):
        dims[0] = size
        assert find(world.call) == expected
    given = Array[i64].on_stack(1)
    given[0], dims[0], world.call.dims[0] = SIZE + 2, SIZE, given
    assert find(world.call) is None
