# SPDX-License-Identifier: Apache-2.0
"""The execution ABI as plain data: the interface of compiler and runtime for one program.

The compiler writes a `ProgramInfo` next to the machine code; the runtime, ahead-of-time
compilation and the front ends read it. Invariant: with the addresses of `<symbol>_sizes` and
`<symbol>_run` and the constant block, a `ProgramInfo` is all that is needed to execute.

The two functions of a program `S`:

* `i32 S_sizes(ptr in_dims, ptr sizes, ptr constants)`: `in_dims` is `i64*[num_params]`, one dims
  array per flattened entry parameter (may be null for rank 0). Fills `sizes`, an `i64[num_sizes]`,
  laid out as `SizesLayout` says. `constants` is the constant block. Returns 0, or 1 + the
  index of the violated one in `constraints` followed by `limits`.
* `i32 S_run(ptr rt, ptr inputs, ptr outputs, ptr temp, ptr sizes, ptr constants)`: `inputs` and
  `outputs` are `ptr[n]` to dense row-major data, `temp` a 64-byte aligned arena of `sizes[0]`
  bytes (null if 0), `constants` the 64-byte aligned constant block. Returns 0, or 1 + index into
  `run_errors`, or `CANCELLED`. An output with `alias_param` j may be given the pointer of input j
  (donation); if it is not, the program copies first.

They are the program's own machine code, or the runtime's, for a program of steps
(`ingot.artifact.steps`), which lie in the constant block.

A program reaches foreign code (`ingot.semantics.custom_calls`) by `i32 call_k(ptr frame)`, where
the frame is five pointers: `{runtime, operands, results, operand_dims, result_dims}`.
`runtime` is `S_run`'s first argument; `operands` and `results` are `ptr[n]` to dense data (null for
a token); the dims are `i64*[n]`, one array per operand and result. 0 means done; anything else ends
the execution with the run error of that call site.

Example:
    >>> row = ParamInfo("f32", (None, 3), "x")
    >>> info = ProgramInfo("add", (row,), (OutputInfo("f32", (None, 3)), OutputInfo("f32", ())), 1)
    >>> layout = info.sizes_layout
    >>> layout.output_bytes(1), layout.output_dims(0), layout.output_dims(1), info.num_sizes
    (3, 4, 6, 6)
"""

from __future__ import annotations

from ingot.support.records import record

Dims = tuple[int | None, ...]
"""Dimensions of one array; None is a symbolic size, known when the program is called."""

DATA_ALIGNMENT = 64
"""Alignment in bytes of arenas, constant blocks and every buffer the runtime allocates."""

MAX_BUFFER_BYTES = 1 << 46
"""The largest buffer in bytes: half of what a process can address on x86-64."""

RUNTIME_FIELDS = ("pool", "parallel", "profile", "attention", "poll", "cancelled")
"""Fields of the runtime record that programs read, 8 bytes each, in this order."""

CANCELLED = -(1 << 31)
"""The status of `S_run` if the execution was cancelled: by a signal, a thread or a deadline."""

SLOT_BYTES = 8
"""Bytes of a slot: of an address or a number in a table that native code reads."""

FRAME_FIELDS = ("runtime", "operands", "results", "operand_dims", "result_dims")
"""Fields of the frame of a foreign call, 8 bytes each."""

ARENA_SLOT = 0
"""Index in `sizes` of the temp arena's bytes."""


def runtime_offset(field: str) -> int:
    """Return the byte offset of one of `RUNTIME_FIELDS`."""
    return RUNTIME_FIELDS.index(field) * 8


@record
class ParamInfo:
    """One flattened entry parameter.

    Attributes:
        dtype: XLA's text name of the element type, `"f32"`.
        dims: the dimensions, None where symbolic.
        name: its name in error messages; empty if it has none.
    """

    dtype: str
    dims: Dims
    name: str = ""


@record
class OutputInfo:
    """One flattened result.

    Attributes:
        dtype: XLA's text name of the element type.
        dims: the dimensions, None where symbolic.
        alias_param: index of the parameter whose memory this output may reuse, or None.
        name: its name in error messages; empty if it has none.
    """

    dtype: str
    dims: Dims
    alias_param: int | None = None
    name: str = ""


@record
class SizesLayout:
    """The layout of the `sizes` array (indices of i64 elements, not bytes).

    Order: arena bytes, symbol values, byte size of each output, all output dims concatenated.
    """

    num_symbols: int
    output_ranks: tuple[int, ...]

    def symbol(self, index: int) -> int:
        """Return the index of symbolic size `index`'s value."""
        return 1 + index

    def output_bytes(self, output: int) -> int:
        """Return the index of output `output`'s byte size."""
        return 1 + self.num_symbols + output

    def output_dims(self, output: int) -> int:
        """Return the index of the first dimension of output `output`."""
        ranks = self.output_ranks
        return 1 + self.num_symbols + len(ranks) + sum(ranks[:output])

    @property
    def count(self) -> int:
        """Elements of `sizes` altogether."""
        return self.output_dims(len(self.output_ranks))


@record
class ProgramInfo:
    """Everything about a program except its machine code and constants.

    Attributes:
        symbol: prefix of the exported functions, `<symbol>_sizes` and `<symbol>_run`.
        params: flattened entry parameters, in order.
        outputs: flattened results, in order.
        num_symbols: the number of symbolic sizes in `sizes`.
        num_sizes: elements of `sizes`; derived when left 0, checked against the layout otherwise.
        constraints: message per shape constraint that `S_sizes` checks.
        limits: message per size that `S_sizes` may find too large.
        largest: the result or temporary that takes most memory, for messages; empty if none.
        run_errors: message per failure that `S_run` can return.
        run_statuses: absl's name per failure, empty for an invalid argument; or none at all.
    """

    symbol: str
    params: tuple[ParamInfo, ...]
    outputs: tuple[OutputInfo, ...]
    num_symbols: int = 0
    num_sizes: int = 0
    constraints: tuple[str, ...] = ()
    run_errors: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    largest: str = ""
    run_statuses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Derive or check `num_sizes`."""
        expected = self.sizes_layout.count
        if self.num_sizes == 0:
            object.__setattr__(self, "num_sizes", expected)
        elif self.num_sizes != expected:
            raise ValueError(f"num_sizes is {self.num_sizes}, but the outputs need {expected}")

    def run_status(self, code: int) -> str:
        """Return absl's name for a status of `S_run`; empty for an invalid argument."""
        return self.run_statuses[code - 1] if code <= len(self.run_statuses) else ""

    @property
    def sizes_layout(self) -> SizesLayout:
        """The layout of this program's `sizes` array."""
        return SizesLayout(self.num_symbols, tuple(len(output.dims) for output in self.outputs))

    @property
    def sizes_symbol(self) -> str:
        """Name of the exported size function."""
        return f"{self.symbol}_sizes"

    @property
    def run_symbol(self) -> str:
        """Name of the exported run function."""
        return f"{self.symbol}_run"
