# SPDX-License-Identifier: Apache-2.0
"""Memory of the text IR builder: loads, stores, addresses, masked access, atomics.

A mixin over `Arithmetic`. Invariant: every access states its alignment, because LLVM assumes
the whole vector's alignment when none is written and tensors only promise their element's.
An i1 is never loaded or stored: predicates live in memory as i8.
"""

from __future__ import annotations

from ingot.llvm.arithmetic import Arithmetic
from ingot.llvm.types import I1, I8, I32, I64, I128, PTR, VOID, Type, struct, vector
from ingot.llvm.values import Value, const, known_lanes, undef, zero
from ingot.support.diagnostics import InternalError

_ANY_SCALAR = "integer float pointer"

TO_L1, TO_L2 = 3, 2
"""Caches that a line is fetched into."""

_DATA_CACHE = 1
"""The cache of data, not of instructions."""


class Memory(Arithmetic):
    """Access to memory; a mixin of `FunctionBuilder`."""

    __slots__ = ()

    def load(
        self,
        type: Type,
        pointer: Value,
        align: int = 0,
        *,
        invariant: bool = False,
        nontemporal: bool = False,
        volatile: bool = False,
    ) -> Value:
        """Load a value; `align` in bytes, 0 = the element's own. `invariant`: nobody writes it.

        Raises:
            InternalError: of i1, as predicates live in memory as i8, or not from a pointer.
        """
        if type.element is I1:
            raise InternalError(f"load of {type.text}: predicates live in memory as i8")
        if pointer.type.kind != "pointer" or type.kind == "void":
            raise self.ill_typed(f"load of {type.text}", pointer)
        word = "load volatile" if volatile else "load"
        address = f"{pointer.type.text} {pointer.text}, align {align or type.alignment}"
        text = f"{word} {type.text}, {address}"
        if invariant:
            text += f", !invariant.load {self.module.metadata('!{}')}"
        if nontemporal:
            text += f", !nontemporal {self.module.metadata('!{i32 1}')}"
        return self.define(type, text)

    def store(
        self,
        value: Value,
        pointer: Value,
        align: int = 0,
        *,
        nontemporal: bool = False,
        volatile: bool = False,
    ) -> None:
        """Store a value; non-temporal stores bypass the caches (needs the vector's alignment).

        Raises:
            InternalError: of i1, as predicates live in memory as i8, or not to a pointer.
        """
        type = value.type
        if type.element is I1:
            raise InternalError(f"store of {type.text}: predicates live in memory as i8")
        if pointer.type.kind != "pointer" or type.kind == "void":
            raise self.ill_typed("store", value, pointer)
        word = "store volatile" if volatile else "store"
        address = f"{pointer.type.text} {pointer.text}, align {align or type.alignment}"
        text = f"{word} {type.text} {value.text}, {address}"
        if nontemporal:
            text += f", !nontemporal {self.module.metadata('!{i32 1}')}"
        self.emit(text)

    def gep(
        self,
        pointer: Value,
        index: Value | int,
        element_type: Type = I8,
        *,
        inbounds: bool = True,
    ) -> Value:
        """Return the address `index` elements after `pointer`; index 0 is the pointer itself.

        A vector index gives a vector of addresses (for `gather` and `scatter`). Not `inbounds`: the
        address may lie outside of the object, because a mask keeps it from being used.
        """
        if isinstance(index, int):
            if index == 0:
                return pointer
            index = const(I64, index)
        of, by = pointer.type, index.type
        if of.lane_kind != "pointer" or by.lane_kind != "integer" or element_type.kind == "void":
            raise self.ill_typed(f"getelementptr over {element_type.text}", pointer, index)
        type = of
        if by.lanes != of.lanes and by.lanes != 1:
            if of.lanes != 1:
                raise self.ill_typed("getelementptr", pointer, index)
            type = vector(of, by.lanes)
        base = f"{of.text} {pointer.text}, {by.text} {index.text}"
        flags = "inbounds " if inbounds else ""
        return self.define_once(type, f"getelementptr {flags}{element_type.text}, {base}")

    def alloca(self, type: Type, count: int = 1, align: int = 0) -> Value:
        """Return the address of `count` uninitialized items on the stack (entry block)."""
        # An array type, not a count: LLVM's SROA ignores allocas with a count.
        held = type.text if count == 1 else f"[{count} x {type.text}]"
        return self.emit_alloca(PTR, f"alloca {held}, align {align or type.alignment}")

    def masked_load(
        self,
        type: Type,
        pointer: Value,
        mask: Value | None,
        otherwise: Value | None = None,
        align: int = 0,
    ) -> Value:
        """Load the lanes where `mask` holds; others are `otherwise` (default zero), not touched.

        Without a mask all are loaded.

        Raises:
            InternalError: the type is no vector, and there is a mask.
        """
        if mask is None:
            return self.load(type, pointer, align)
        other = zero(type) if otherwise is None else otherwise
        if not type.is_vector:
            raise InternalError("a masked load of one lane is a branch: use if_")
        if self._is_on(mask):
            return self.load(type, pointer, align)
        if all(self.lanes_off(mask)):
            # LLVM 22 reads all lanes of such a load if its result is unused.
            return other
        if type.element is I128:
            words = _as_words(type)
            loaded = self.masked_load(
                words, pointer, self._per_word(mask), self.bitcast(other, words), align
            )
            return self.bitcast(loaded, type)
        step = self._piece_lanes(type)
        if step < type.lanes:
            piece = vector(type.element, step)
            return self.concat_lanes(
                [
                    self.masked_load(
                        piece,
                        self.gep(pointer, start * type.element.bytes, inbounds=False),
                        self.slice_lanes(mask, start, step),
                        self.slice_lanes(other, start, step),
                        align or type.alignment,
                    )
                    for start in range(0, type.lanes, step)
                ]
            )
        return self._masked("load", type, [pointer, mask, other], align)

    def masked_store(
        self, value: Value, pointer: Value, mask: Value | None, align: int = 0
    ) -> None:
        """Store the lanes where `mask` holds; all of them without a mask."""
        type = value.type
        if mask is None or self._is_on(mask):
            self.store(value, pointer, align)
            return
        if all(self.lanes_off(mask)):
            return
        if type.element is I128:
            words = self.bitcast(value, _as_words(type))
            self.masked_store(words, pointer, self._per_word(mask), align)
            return
        step = self._piece_lanes(type)
        if step < type.lanes:
            for start in range(0, type.lanes, step):
                self.masked_store(
                    self.slice_lanes(value, start, step),
                    self.gep(pointer, start * type.element.bytes, inbounds=False),
                    self.slice_lanes(mask, start, step),
                    align or type.alignment,
                )
            return
        value, mask = self._widened(value, mask)
        type = value.type
        self._masked("store", VOID, [value, pointer, mask], align or type.alignment)

    def _is_on(self, mask: Value) -> bool:
        """Whether all lanes of a mask are known to be true."""
        known = known_lanes(mask)
        return known is not None and set(known) == {"true"}

    def _per_word(self, mask: Value) -> Value:
        """Return the mask of 128-bit lanes as a mask of their 64-bit words."""
        return self.shuffle(mask, mask, [lane for lane in range(mask.type.lanes) for _ in (0, 1)])

    def _widened(self, value: Value, mask: Value) -> tuple[Value, Value]:
        """Return the value of a masked store, widened to a whole register.

        LLVM 22 miscompiles a masked store of truncated integers whose mask is known to have one
        lane: it stores the wide integer. With a whole register it does not store truncated.
        """
        type, bits = value.type, self.module.vector_bits
        lanes = bits // type.element.bits
        if bits == 0 or type.element.is_float or type.lanes >= lanes:
            return value, mask
        sources = [lane if lane < type.lanes else -1 for lane in range(lanes)]
        off = [min(lane, type.lanes) for lane in range(lanes)]
        wide_mask = self.shuffle(mask, const(mask.type, False), off)
        return self.shuffle(value, undef(type), sources), wide_mask

    def _piece_lanes(self, type: Type) -> int:
        """Return the lanes of one register.

        LLVM 22 miscompiles (or aborts on) a masked load that it has to cut when one part's mask is
        known to be false: it reads that part whole. So it gets no loads that it has to cut.
        """
        bits = self.module.vector_bits
        return type.lanes if bits == 0 else min(type.lanes, bits // type.element.bits)

    def gather(
        self, type: Type, pointers: Value, mask: Value | None = None, otherwise: Value | None = None
    ) -> Value:
        """Load each lane from its own address."""
        if not type.is_vector:
            return self.load(type, pointers)
        every = const(vector(I1, type.lanes), True) if mask is None else mask
        other = undef(type) if otherwise is None else otherwise
        return self._masked("gather", type, [pointers, every, other], 0)

    def scatter(self, value: Value, pointers: Value, mask: Value | None = None) -> None:
        """Store each lane to its own address; on equal addresses the highest lane wins."""
        type = value.type
        if not type.is_vector:
            self.store(value, pointers)
            return
        has_instruction = self.module.architecture != "x86" or self.module.vector_bits >= 512
        if mask is not None and not has_instruction:
            # LLVM would branch for each lane, which takes long where data decides: the other lanes
            # go to a place that nobody reads.
            nowhere = self.splat(self.alloca(type.element), type.lanes)
            pointers, mask = self.select(mask, pointers, nowhere), None
        every = const(vector(I1, type.lanes), True) if mask is None else mask
        self._masked("scatter", VOID, [value, pointers, every], type.alignment)

    def _masked(self, what: str, result: Type, args: list[Value], align: int) -> Value:
        """Call a masked intrinsic: the alignment is an attribute of its pointer argument."""
        function = self.declared_intrinsic(f"llvm.masked.{what}", result, args)
        operands = [f"{item.type.text} {item.text}" for item in args]
        position = 1 if result is VOID else 0
        pointer = args[position]
        bytes_ = align or result.alignment
        operands[position] = f"{pointer.type.text} align {bytes_} {pointer.text}"
        text = f"call {result.text} {function.text}({', '.join(operands)})"
        if result is VOID:
            self.emit(text)
            return Value(VOID, "")
        return self.define(result, text)

    def atomic_load(self, type: Type, pointer: Value, ordering: str = "acquire") -> Value:
        """Load atomically: monotonic, acquire or seq_cst."""
        self._check_atomic("load", _ANY_SCALAR, pointer, type)
        address = f"{pointer.type.text} {pointer.text}"
        return self.define(
            type, f"load atomic {type.text}, {address} {ordering}, align {type.alignment}"
        )

    def atomic_store(self, value: Value, pointer: Value, ordering: str = "release") -> None:
        """Store atomically: monotonic, release or seq_cst."""
        self._check_atomic("store", _ANY_SCALAR, pointer, value.type)
        address = f"{pointer.type.text} {pointer.text}"
        item = f"{value.type.text} {value.text}"
        self.emit(f"store atomic {item}, {address} {ordering}, align {value.type.alignment}")

    def atomicrmw(
        self, operation: str, pointer: Value, value: Value, ordering: str = "acq_rel"
    ) -> Value:
        """Update memory and return its old value: xchg add sub and or xor max min umax umin."""
        self._check_atomic(operation, "integer", pointer, value.type)
        operands = f"{pointer.type.text} {pointer.text}, {value.type.text} {value.text}"
        return self.define(value.type, f"atomicrmw {operation} {operands} {ordering}")

    def cmpxchg(
        self,
        pointer: Value,
        expected: Value,
        new: Value,
        success: str = "acq_rel",
        failure: str = "acquire",
    ) -> tuple[Value, Value]:
        """Write `new` if memory holds `expected`; return (old value, whether it was written)."""
        type = expected.type
        self._check_atomic("cmpxchg", "integer pointer", pointer, type, new.type)
        operands = f"{pointer.type.text} {pointer.text}, {type.text} {expected.text}"
        pair = self.define(
            struct(type, I1), f"cmpxchg {operands}, {type.text} {new.text} {success} {failure}"
        )
        return self.extract_value(pair, 0), self.extract_value(pair, 1)

    def _check_atomic(self, what: str, kinds: str, pointer: Value, *types: Type) -> None:
        """Require a pointer, and a scalar type of these kinds that can be in memory."""
        type = types[0]
        fits = type.kind in kinds.split() and type is not I1 and types == (type,) * len(types)
        if pointer.type.kind != "pointer" or not fits:
            raise self.ill_typed(f"atomic {what} of {types} at", pointer)

    def prefetch(self, address: Value, *, for_writing: bool = False, to: int = TO_L1) -> None:
        """Fetch a line of memory into the L1 cache, or the one that `to` says."""
        how = [const(I32, number) for number in (int(for_writing), to, _DATA_CACHE)]
        self.intrinsic("llvm.prefetch", VOID, [address, *how])

    def memcpy(self, target: Value, source: Value, size: Value | int) -> None:
        """Copy `size` bytes between regions that do not overlap (a call to memcpy if large)."""
        count = const(I64, size) if isinstance(size, int) else size
        self.intrinsic("llvm.memcpy", VOID, [target, source, count, const(I1, False)])

    def memset(self, target: Value, byte: int, size: Value | int) -> None:
        """Fill `size` bytes."""
        count = const(I64, size) if isinstance(size, int) else size
        fill = const(I8, byte)
        self.intrinsic("llvm.memset", VOID, [target, fill, count, const(I1, False)])


def _as_words(type: Type) -> Type:
    """Return the type of 128-bit lanes as 64-bit words: no CPU masks or moves 128 bits as one."""
    return vector(I64, 2 * type.lanes)
