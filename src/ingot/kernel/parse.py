# SPDX-License-Identifier: Apache-2.0
"""Kernels from text: the inverse of `kernel.text`, which has the grammar.

For tools and tests; compilations read no kernels. What is read is verified: a text gives a valid
kernel, or a `ParseError` with the line, the column and the token expected there. Comments are
HLO's: `// …`.

Invariant: `parse_kernel(kernel_text(kernel)) == kernel`.

Example:
    >>> kernel = parse_kernel('''
    ... loop over [@0 < 8] {
    ...   b0 = in f32[8]
    ...   b1 = out f32[8]
    ...   pass over [] {
    ...     v0 = f32 load b0[7-@0]
    ...     b1[@0] = v0
    ...   }
    ... }''')
    >>> kernel.grid
    (Axis(name='@0', extent=8),)
"""

from __future__ import annotations

from typing import Any, NoReturn

from ingot.formats.hlo_text.reader import SKIP, Reader, with_span
from ingot.formats.hlo_text.window_text import read_window
from ingot.hlo.dtype import DType
from ingot.kernel.expr import Expr
from ingot.kernel.ir import (
    AttentionKernel,
    Axis,
    Buffer,
    Combiner,
    ContractionKernel,
    ConvolutionKernel,
    FftKernel,
    Kernel,
    LoopKernel,
    Pass,
    Patches,
    PlainConvolution,
    Reduction,
    SortKernel,
    Store,
    TopKKernel,
)
from ingot.kernel.parse_values import BUFFER, ValueReader
from ingot.kernel.text import PRODUCTS
from ingot.kernel.verifier import broken_constraint
from ingot.support.arguments import encodable
from ingot.support.diagnostics import IngotError, ParseError
from ingot.support.regex import regex
from ingot.support.text import did_you_mean

SOURCE = "<kernel>"
_BUFFER = regex(SKIP + r"b(\d{1,9}+)\s*+=")
_FOLD = regex(SKIP + r"r(\d{1,9}+)\s*+=")
_SIZE_NAME = regex(SKIP + r"([A-Za-z_][\w.]*+)")
_LABEL = regex(SKIP + r"([\w.\-]++(?:[ \t]++[\w.\-]++)?+):")


def parse_kernel(text: str, source_name: str = SOURCE) -> Kernel:
    """Return the kernel that a text says.

    Args:
        text: of one kernel.
        source_name: what errors call the text, such as its file name.

    Raises:
        ParseError: the text is not that of a kernel (INGOT0101 to INGOT0110), or the kernel is not
            valid (INGOT0114, with the label of the constraint).
    """
    parser = _Parser(Reader(encodable(text), source_name))
    kernel = parser.checked()
    parser.expect_end()
    return kernel


def is_listing(text: str) -> bool:
    """Whether a text begins with the label of a kernel, as that of several kernels does."""
    return _LABEL.match(text) is not None


def parse_kernels(text: str, source_name: str = SOURCE) -> dict[str, Kernel]:
    """Return kernels by their labels, as `Executable.as_text("kernel")` prints them.

    Args:
        text: of kernels, each after its label and a colon: `k_0a1b: loop over …`.
        source_name: what errors call the text, such as its file name.

    Raises:
        ParseError: as `parse_kernel`, or two kernels have one label.
    """
    reader = Reader(encodable(text), source_name)
    found: dict[str, Kernel] = {}
    while reader.skip() < len(reader.text):
        label = reader.take(_LABEL)
        if label is None:
            reader.fail(f"expected the label of a kernel and ':', found {reader.found()}")
        if label[1] in found:
            message = f"two kernels are labelled {label[1]}"
            reader.fail(message, at=label.start(1), code="INGOT0105")
        found[label[1]] = _Parser(reader).checked()
    return found


class _Parser(ValueReader):
    """Takes one kernel."""

    def checked(self) -> Kernel:
        """Take a kernel, and verify it."""
        at = self.reader.skip()
        try:
            kernel = self._kernel()
        except ParseError:
            raise
        except IngotError as error:
            # A limit of what a size may be, met while one was made.
            found = with_span(error, self.reader, self.reader.position).diagnostic
            raise ParseError(found) from None
        broken = broken_constraint(kernel)
        if broken is not None:
            self.reader.fail(broken, at=at, code="INGOT0114")
        return kernel

    def expect_end(self) -> None:
        """Refuse the next token."""
        if self.reader.skip() < len(self.reader.text):
            self.reader.fail(f"expected the end of the text, found {self.reader.found()}")

    def _kernel(self) -> Kernel:
        kinds = {
            "serial": self._serial,
            "loop": self._loop,
            "contraction": self._contraction,
            "convolution": self._convolution,
            "attention": self._attention,
            "sort": self._sort,
            "fft": self._fft,
            "top-k": self._top_k,
        }
        at = self.reader.skip()
        word = self.reader.word("a kernel: loop, contraction, attention, sort, fft or top-k")
        if word not in kinds:
            hint = did_you_mean(word, kinds)
            self.reader.fail(f"there is no kernel '{word}'", at=at, code="INGOT0102", hint=hint)
        return kinds[word]()

    # ---- loops

    def _serial(self) -> LoopKernel:
        self.expect_word("loop")
        return self._loop(serial=True)

    def _loop(self, serial: bool = False) -> LoopKernel:
        grid = self._over()
        self.reader.expect("{", "after the axes")
        buffers = self._buffers()
        local = self._buffers(len(buffers))
        parameters = self.listed(self._size_name) if self.accepts_word("parameters") else ()
        passes: list[Pass] = []
        while not self.reader.accept("}"):
            running = self.accepts_word("running")
            self.expect_word("pass")
            passes.append(self._pass(running))
        return LoopKernel(grid, tuple(passes), buffers, serial, local, parameters)

    def _pass(self, is_running: bool) -> Pass:
        axes = self._over()
        self.reader.expect("{", "after the axes")
        reductions: list[Reduction] = []
        stores: list[Store] = []
        while not self.reader.accept("}"):
            if self.defines():
                continue
            found = self.reader.take(_FOLD)
            if found is not None:
                reductions.append(self._reduction(int(found[1])))
            else:
                stores.append(self._store())
        return Pass(axes, tuple(reductions), tuple(stores), is_running)

    def _reduction(self, number: int) -> Reduction:
        self.expect_word("reduce")
        inputs = self.uses()
        self.expect_word("from")
        inits = self.uses()
        self.expect_word("by")
        return Reduction(number, Combiner(self.uses()), inits, inputs)

    def _store(self) -> Store:
        if BUFFER.match(self.reader.text, self.reader.position) is None:
            self._fail_statement()
        number, where, values = self.access()
        self.reader.expect("=", "after the element of a store")
        value = self.use()
        mask = self.use() if self.accepts_word("if") else None
        combiner = Combiner(self.uses()) if self.accepts_word("by") else None
        return Store(number, where, value, values, mask, combiner)

    def _fail_statement(self) -> NoReturn:
        wanted = "a value (v0 = …), a reduction (r0 = …), a store (b0[…] = …) or '}'"
        self.reader.fail(f"expected {wanted}, found {self.reader.found()}", at=self.reader.skip())

    # ---- the other kinds

    def _products(self, word: str) -> dict[str, Any]:
        """Take the fields of a kernel of products, by name, and the end of the kernel."""
        names, values = PRODUCTS[word]
        at = self.reader.skip()
        axes = self._over()
        if len(axes) != len(names):
            wanted = f"{', '.join(names[:-1])} and {names[-1]}"
            self.reader.fail(f"expected {len(names)} axes: {wanted}, found {len(axes)}", at=at)
        found: dict[str, Any] = dict(zip(names, axes, strict=True))
        found["accumulate"] = self._in_type()
        self.reader.expect("{", "after the element type")
        found["buffers"] = self._buffers()
        if word == "contraction":
            found["patches"] = self._patches()
        found |= {name: self._named(name) for name in values}
        return found | {"stores": self._stores()}

    def _contraction(self) -> ContractionKernel:
        return ContractionKernel(**self._products("contraction"))

    def _attention(self) -> AttentionKernel:
        return AttentionKernel(**self._products("attention"))

    def _stores(self) -> tuple[Store, ...]:
        """Take definitions and stores up to the end of a kernel."""
        stores: list[Store] = []
        while not self.reader.accept("}"):
            if not self.defines():
                stores.append(self._store())
        return tuple(stores)

    def _convolution(self) -> ConvolutionKernel:
        convolution = self._plain_convolution()
        self.expect_word("as")
        if self.accepts_word("contraction"):
            return ConvolutionKernel(convolution, self._contraction())
        self.expect_word("loop")
        loops = self._loop()
        if not self.accepts_word("or"):
            return ConvolutionKernel(convolution, loops)
        self.expect_word("as")
        self.expect_word("contraction")
        return ConvolutionKernel(convolution, loops, self._contraction())

    def _patches(self) -> Patches | None:
        if not self.accepts_word("patches"):
            return None
        m = self.listed(self._axis)
        self.expect_word("by")
        k = self.listed(self._axis)
        self.expect_word("along")
        along_k = self.accepts_word("k")
        if not along_k:
            self.expect_word("m")
        return Patches(m, k, along_k)

    def _named(self, name: str) -> Expr:
        """Take definitions, and then `name = vN`."""
        while self.defines():
            pass
        self.expect_word(name)
        self.reader.expect("=", f"after {name}")
        return self.use()

    def _sort(self) -> SortKernel:
        operands = self.listed(self.buffer, "()")
        self.expect_word("over")
        at = self.reader.skip()
        extents = self.listed(self.index)
        if len(extents) != 3:
            self.reader.fail(f"expected 3 extents of a sort, found {len(extents)}", at=at)
        self.reader.expect("{", "after the extents")
        buffers = self._buffers()
        before = self._named("before")
        self.reader.expect("}", "after the comparator")
        outer, length, inner = extents
        return SortKernel(outer, length, inner, before, buffers, operands)

    def _fft(self) -> FftKernel:
        kind = self.reader.word("FFT, IFFT, RFFT or IRFFT")
        self.expect_word("of")
        batch = self.index()
        self.expect_word("times")
        lengths = self.listed(self.reader.integer)
        element = self._in_type()
        return FftKernel(kind, lengths, batch, element, self._only_buffers())

    def _top_k(self) -> TopKKernel:
        largest = self.accepts_word("largest")
        if not largest:
            self.expect_word("least")
        k = self.reader.integer()
        self.expect_word("of")
        at = self.reader.skip()
        extents = self.listed(self.index)
        if len(extents) != 2:
            self.reader.fail(f"expected rows and their length, found {len(extents)} sizes", at=at)
        rows, length = extents
        return TopKKernel(rows, length, k, largest, self._only_buffers())

    # ---- parts

    def _over(self) -> tuple[Axis, ...]:
        self.expect_word("over")
        return self.listed(self._axis)

    def _axis(self) -> Axis:
        name = self.axis_name()
        self.reader.expect("<", "after the name of an axis")
        return Axis(name, self.index())

    def _in_type(self) -> DType:
        self.expect_word("in")
        return self.element()

    def _size_name(self) -> str:
        return self.matched(_SIZE_NAME, "the name of a size")[1]

    def _only_buffers(self) -> tuple[Buffer, ...]:
        self.reader.expect("{", "before the buffers")
        buffers = self._buffers()
        self.reader.expect("}", "after the buffers")
        return buffers

    def _buffers(self, after: int | None = None) -> tuple[Buffer, ...]:
        """Take the arguments or, after the number of arguments `after`, the local buffers."""
        found: list[Buffer] = []
        reader = self.reader
        while (mark := _BUFFER.match(reader.text, reader.position)) is not None:
            start, reader.position = reader.position, mark.end()
            is_local = self.accepts_word("local")
            if is_local and after is None:
                reader.position = start
                break
            is_output = is_local or self.accepts_word("out")
            if not is_output:
                self.expect_word("in")
            if is_local is not (after is not None):
                reader.fail("local buffers come after the arguments", at=mark.start(1) - 1)
            if int(mark[1]) != len(found) + (after or 0):
                message = f"expected buffer b{len(found) + (after or 0)}, found b{mark[1]}"
                reader.fail(message, at=mark.start(1) - 1)
            element = self.element()
            reader.expect("[", "before the size of a buffer")
            size = self.index()
            reader.expect("]", "after the size of a buffer")
            found.append(Buffer(element, size, is_output))
        return tuple(found)

    def _plain_convolution(self) -> PlainConvolution:
        lhs = self.buffer()
        self.reader.expect("*", "between the operands of a convolution")
        rhs = self.buffer()
        self.reader.expect(",", "after the operands of a convolution")
        self._key("batch")
        batch = self.index()
        sizes, results = self._attribute_list("sizes"), self._attribute_list("results")
        channels, features = self._attribute("channels"), self._attribute("features")
        groups = self._attribute("groups")
        self._key("window")
        window = read_window(self.reader)
        is_of_filter = self.accepts_word("of_filter")
        return PlainConvolution(
            batch, sizes, results, channels, features, groups, window, lhs, rhs, is_of_filter
        )

    def _key(self, name: str) -> None:
        self.expect_word(name)
        self.reader.expect("=", f"after {name}")

    def _attribute(self, name: str) -> int:
        self._key(name)
        return self.reader.integer()

    def _attribute_list(self, name: str) -> tuple[int, ...]:
        self._key(name)
        return self.listed(self.reader.integer, "{}")
