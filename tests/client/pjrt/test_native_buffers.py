# SPDX-License-Identifier: Apache-2.0
"""Buffers, storages and events: machine code and plain Python do the same, and free exactly once.

A random sequence of calls runs in two worlds, each with a heap that refuses to free twice. What
they allocate, free and call back must be the same, call by call.
"""

import ctypes
import random

import pytest
from tests.native.support import C_TYPES

from ingot.client.pjrt.c_api import RESOURCE_EXHAUSTED
from ingot.client.pjrt.native_code import buffers as native_buffers
from ingot.client.pjrt.native_code import events as native_events
from ingot.client.pjrt.native_code.emit import arguments
from ingot.client.pjrt.records import GONE, Buffer, Device, Error, Event, Storage
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.native.functions import HostFunction, exported_of, llvm_signature, replaced, symbol_of
from ingot.native.memory import raw_address
from ingot.native.module import Translation
from ingot.native.pointers import Pointer
from ingot.runtime.native import library_imports

ADDRESS, SIZE = ctypes.c_void_p, ctypes.c_int64
DIMS = (ctypes.c_int64 * 2)(3, 4)
DEVICE = Device.on_stack()


class World:
    """Where functions run: `trace` is what they did, with objects by the order of their birth."""

    def __init__(self):
        self.trace, self.live, self.born, self.fails = [], {}, {}, False

    def allocate(self, size):
        """`ingot_allocate`: memory full of rubbish."""
        if self.fails:
            self.trace.append(("no memory", size))
            return 0
        memory = (ctypes.c_ubyte * size)(*[0xA5] * size)
        address = ctypes.addressof(memory)
        self.live[address] = memory
        self.born[address] = len(self.born), memory  # kept, so that no address comes twice
        self.trace.append(("allocate", size))
        return address

    def free(self, address):
        """`ingot_free`."""
        del self.live[address]
        self.trace.append(("free", self.born[address][0]))

    def released(self, data, context):
        """What ends a view."""
        self.trace.append(("released", data, context or 0))

    def happened(self, error, context):
        """A callback for an event."""
        code = Error.c_layout.read(error, "code") if error else 0
        self.trace.append(("happened", code, context or 0))
        if error:
            self.call(native_events.release_error, error)


class MachineCode(World):
    def __init__(self, text):
        super().__init__()
        self._callbacks = {
            "ingot_allocate": ctypes.CFUNCTYPE(ADDRESS, SIZE)(self.allocate),
            "ingot_free": ctypes.CFUNCTYPE(None, ADDRESS)(self.free),
            "released": ctypes.CFUNCTYPE(None, ADDRESS, ADDRESS)(self.released),
            "happened": ctypes.CFUNCTYPE(None, ADDRESS, ADDRESS)(self.happened),
        }
        self.addresses = {
            name: ctypes.cast(each, ADDRESS).value for name, each in self._callbacks.items()
        }
        imports = {**self.addresses, **library_imports()}
        self._library = link_object([compile_object(text, TargetSpec.host())], imports)

    def call(self, function, *args):
        result, params = llvm_signature(function)
        types = [C_TYPES.get(each, ADDRESS) for each in (result, *params)]
        return self._library.function(symbol_of(function), *types)(*args) or 0


class PlainPython(World):
    def __init__(self):
        super().__init__()
        self.addresses = {}
        for name in ("released", "happened"):
            self.addresses[name] = HostFunction(self._with_numbers(getattr(self, name))).address

    def _with_numbers(self, function):
        return lambda *args: function(*map(raw_address, args))

    def call(self, function, *args):
        heap = {"ingot_allocate": self.allocate, "ingot_free": self._with_numbers(self.free)}
        with replaced(**heap):
            made = function(*args)
        return raw_address(made) if made is None or isinstance(made, Pointer) else made


@pytest.fixture(scope="module")
def text():
    module = ModuleBuilder("buffers_test")
    files = (native_events, native_buffers)
    Translation(module).add(*[each for file in files for each in exported_of(file).values()])
    return module.text()


class Play:
    """One random sequence of legal calls; the state says which are."""

    def __init__(self, world, seed):
        self.world, self.random = world, random.Random(seed)
        self.buffers, self.held, self.events = [], [], []
        self.uses, self.views = {}, {}
        self.results = []

    def call(self, function, *args):
        """Call; the result is noted by its birth if it is an object."""
        made = self.world.call(function, *args)
        self.results.append(self.world.born.get(made, (made,))[0])
        return made

    def slot(self, function, **fields):
        """Call a slot; return its arguments, and note the code of its error."""
        args = arguments(symbol_of(function)).on_stack()
        layout = args.c_layout
        for name, value in fields.items():
            layout.write(args.address, name, value)
        error = self.world.call(function, args.address)
        self.results.append(Error.c_layout.read(error, "code") if error else "OK")
        return lambda name: layout.read(args.address, name)

    def step(self):
        """Do one call."""
        moves = [self.make_buffer, self.make_view, self.make_event]
        if self.buffers:
            moves += [self.use, self.unuse, self.discard, self.look, self.look, self.destroy]
            moves += [self.show, self.hide, self.read_pointer, self.read_event]
        if self.held:
            moves += [self.drop]
        if self.events:
            moves += [self.happen, self.wait_for]
        self.random.choice(moves)()

    def make_buffer(self):
        storage = self.call(native_buffers.new_storage, None, self.random.randint(0, 100))
        if self.events and self.random.random() < 0.5:
            event = self.random.choice(self.events)
            self.call(native_events.retain, event)
            Storage.c_layout.write(storage, "event", event)
        if self.random.random() < 0.3:
            self.call(native_events.retain, storage)
            self.held.append(storage)
        self._add_buffer(storage)

    def _add_buffer(self, storage):
        dims = ctypes.addressof(DIMS)
        buffer = self.call(native_buffers.new_buffer, storage, 11, dims, 2, 48, DEVICE.address, 704)
        self.results.append(bytes(self.world.live[buffer])[-16:])
        self.buffers.append(buffer)
        self.uses[buffer] = self.views[buffer] = 0

    def make_view(self):
        released = self.world.addresses["released"]
        self._add_buffer(self.call(native_buffers.new_view, 8192, 5, released, len(self.buffers)))

    def make_event(self):
        self.events.append(self.call(native_events.new_event))

    def use(self):
        buffer = self.random.choice(self.buffers)
        if self.call(native_buffers.use, buffer):
            self.uses[buffer] += 1

    def unuse(self):
        buffer = self.random.choice(self.buffers)
        if self.uses[buffer]:
            self.uses[buffer] -= 1
            self.call(native_buffers.unuse, buffer)

    def discard(self):
        self.call(native_buffers.discard, self.random.choice(self.buffers))

    def look(self):
        buffer = self.random.choice(self.buffers)
        storage = Buffer.c_layout.read(buffer, "storage")
        self.results += [bool(storage), Buffer.c_layout.read(buffer, "users")]
        if storage:
            self.results.append(Storage.c_layout.read(storage, "references"))

    def destroy(self):
        buffer = self.random.choice(self.buffers)
        if not self.uses[buffer] and not self.views[buffer]:
            self.buffers.remove(buffer)
            self.slot(native_buffers.destroy_slot, buffer=buffer)

    def show(self):
        buffer = self.random.choice(self.buffers)
        self.slot(native_buffers.increase_references_slot, buffer=buffer)
        self.views[buffer] += self.results[-1] == "OK"

    def hide(self):
        buffer = self.random.choice(self.buffers)
        if self.views[buffer]:
            self.views[buffer] -= 1
            self.slot(native_buffers.decrease_references_slot, buffer=buffer)

    def read_pointer(self):
        buffer = self.random.choice(self.buffers)
        result = self.slot(native_buffers.unsafe_pointer_slot, buffer=buffer)
        storage = Buffer.c_layout.read(buffer, "storage")
        data = Storage.c_layout.read(storage, "data") if self.results[-1] == "OK" else 0
        assert result("buffer_pointer") == data

    def read_event(self):
        buffer = self.random.choice(self.buffers)
        event = self.slot(native_buffers.ready_event_slot, buffer=buffer)("event")
        self.results.append(Event.c_layout.read(event, "done"))
        self.call(native_events.release_event, event)

    def drop(self):
        self.call(native_buffers.release_storage, self.held.pop())

    def happen(self):
        error = 0
        if self.random.random() < 0.5:
            error = self.call(native_events.new_error, 13, ctypes.addressof(DIMS), 16)
        self.call(native_events.set_event, self.random.choice(self.events), error)

    def wait_for(self):
        event, happened = self.random.choice(self.events), self.world.addresses["happened"]
        self.call(native_events.on_ready, event, happened, len(self.results))

    def end(self):
        """Give everything back."""
        for buffer in self.buffers:
            for _ in range(self.views[buffer]):
                self.slot(native_buffers.decrease_references_slot, buffer=buffer)
            for _ in range(self.uses[buffer]):
                self.call(native_buffers.unuse, buffer)
            self.call(native_buffers.destroy, buffer)
        while self.held:
            self.drop()
        for event in self.events:
            self.call(native_events.set_event, event, 0)
            self.call(native_events.release_event, event)


@pytest.mark.parametrize("seed", range(6))
def test_both_worlds_do_the_same_and_free_all(text, seed):
    plays = [Play(world, seed) for world in (MachineCode(text), PlainPython())]
    for _ in range(250):
        for play in plays:
            play.step()
        assert plays[0].world.trace == plays[1].world.trace
        assert plays[0].results == plays[1].results
    for play in plays:
        play.end()
        assert play.world.live == {}
        assert [row[0] for row in play.world.trace].count("free") == len(play.world.born)
    assert plays[0].world.trace == plays[1].world.trace


def test_a_used_storage_outlives_its_deletion(text):
    for world in (MachineCode(text), PlainPython()):
        play = Play(world, 0)
        play.make_buffer()
        (buffer,) = play.buffers
        play.use()
        play.discard()
        assert Buffer.c_layout.read(buffer, "users") == GONE + 1
        assert [row[0] for row in world.trace] == ["allocate", "allocate"]
        assert world.call(native_buffers.use, buffer) == 0
        play.unuse()
        assert world.trace[2:] == [("free", 0)]


def test_without_memory_there_is_null(text):
    for world in (MachineCode(text), PlainPython()):
        world.fails = True
        makers = [
            world.call(native_events.new_event),
            world.call(native_buffers.new_storage, None, 8),
            world.call(native_buffers.new_view, 8192, 5, world.addresses["released"], 0),
            world.call(native_buffers.new_buffer, 64, 11, ctypes.addressof(DIMS), 2, 48, 640, 704),
        ]
        assert makers == [0, 0, 0, 0]
        error = world.call(native_events.new_error, 3, ctypes.addressof(DIMS), 4)
        assert Error.c_layout.read(error, "code") == RESOURCE_EXHAUSTED
