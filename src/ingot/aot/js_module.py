# SPDX-License-Identifier: Apache-2.0
"""The JavaScript module for a WebAssembly module: arrays in, arrays out.

`ingot aot` writes it for wasm32: an ES module for browsers, Node and Deno, without dependencies. It
does what a C caller of the header does: tables of addresses, sizes, statuses. Invariant: a call
frees all memory that it allocates.
"""

from __future__ import annotations

import json

from ingot.aot.wasm_link import IMPORTS
from ingot.artifact.metadata import ArrayInfo, Metadata

_ARRAYS = {
    **{"f32": "Float32Array", "c64": "Float32Array", "f64": "Float64Array", "c128": "Float64Array"},
    **{f"s{bits}": f"Int{bits}Array" for bits in (8, 16, 32)},
    **{f"u{bits}": f"Uint{bits}Array" for bits in (8, 16, 32)},
    **{"s64": "BigInt64Array", "u64": "BigUint64Array"},
    **{"f16": "Uint16Array", "bf16": "Uint16Array"},
}
"""JavaScript's array type of an element type; complex numbers are pairs, other types bits."""

_TEXT = """
export class Program {
  // Compiles the module. `source`: its bytes (ArrayBuffer or Uint8Array), or a URL to fetch.
  // `weights`: the bytes of its weights, where they are not inside.
  static async load(source, weights) {
    const isData = ArrayBuffer.isView(source) || source instanceof ArrayBuffer;
    const data = isData ? source : await (await fetch(source)).arrayBuffer();
    const { instance } = await WebAssembly.instantiate(data, { env: IMPORTS });
    const program = new Program(instance.exports);
    if (weights !== undefined) program.#setWeights(weights);
    return program;
  }

  #exports;
  constructor(exports) { this.#exports = exports; }

  // Runs the program. Each argument is a typed array, or {data, dims} where a size is symbolic.
  // Returns a list of {data, dims}.
  run(...args) {
    if (args.length !== ARGS.length) throw new Error(`${SYMBOL} takes ${ARGS.length} arguments`);
    const given = args.map((arg, n) => fitting(ARGS[n], arg));
    const held = [];
    try {
      const dims = this.#table(given.map((one) => this.#table(one.dims, held)), held);
      const sizes = this.#table(new Array(NUM_SIZES).fill(0), held);
      this.#require(this.#call("prepare", dims, sizes));
      const found = Array.from(new BigInt64Array(this.#buffer, sizes, NUM_SIZES), Number);
      const inputs = this.#table(given.map((one) => this.#copyIn(one.data, held)), held);
      const counts = RESULTS.map((_, n) => found[OUTPUT_BYTES + n]);
      const addresses = counts.map((count) => this.#allocate(count, held));
      const outputs = this.#table(addresses, held);
      this.#require(this.#call("execute", inputs, outputs, sizes));
      let at = OUTPUT_DIMS;
      return RESULTS.map((row, n) => {
        const shape = found.slice(at, (at += row.dims.length));
        const bytes = this.#buffer.slice(addresses[n], addresses[n] + counts[n]);
        return { data: new row.array(bytes), dims: shape };
      });
    } finally {
      for (const address of held) this.#call("free", address);
    }
  }

  get #buffer() { return this.#exports.memory.buffer; }
  #call(name, ...args) { return this.#exports[`${SYMBOL}_${name}`](...args); }
  #allocate(bytes, held) {
    const address = this.#call("allocate", bytes) >>>0;
    if (address === 0) throw new Error("out of memory");
    held.push(address);
    return address;
  }
  #copyIn(data, held) {
    const address = this.#allocate(data.byteLength, held);
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    new Uint8Array(this.#buffer).set(bytes, address);
    return address;
  }
  // Every slot of a table has 8 bytes.
  #table(numbers, held) { return this.#copyIn(BigInt64Array.from(numbers, BigInt), held); }
  #setWeights(weights) {
    const bytes = ArrayBuffer.isView(weights) ? weights : new Uint8Array(weights);
    const address = this.#copyIn(bytes, []);
    this.#require(this.#call("set_weights", address, BigInt(bytes.byteLength)));
  }
  #require(status) {
    if (status === 0) return;
    const start = this.#call("error_msg", status) >>>0;
    const bytes = new Uint8Array(this.#buffer);
    throw new Error(new TextDecoder().decode(bytes.slice(start, bytes.indexOf(0, start))));
  }
}

function fitting(row, arg) {
  const { data, dims } = ArrayBuffer.isView(arg) ? { data: arg, dims: row.dims } : arg;
  const fits = dims.length === row.dims.length &&
    dims.every((dim, n) => Number.isInteger(dim) && (row.dims[n] === null || dim === row.dims[n]));
  const count = dims.reduce((a, b) => a * b, row.numbers);
  if (!(data instanceof row.array) || !fits || data.length !== count) {
    throw new TypeError(`argument '${row.name}' must be a ${row.array.name} of ${row.shape}`);
  }
  return { data, dims };
}
"""


def js_module(metadata: Metadata) -> str:
    """Return the text of the module; it exports the class `Program`."""
    imports = ", ".join(f"{name}: (a, b) => a % b" for name in IMPORTS)
    return f"""// {metadata.symbol}: compiled by Ingot {metadata.version} for WebAssembly.
const SYMBOL = {json.dumps(metadata.symbol)};
const ARGS = [{_rows(metadata.params)}];
const RESULTS = [{_rows(metadata.outputs)}];
const NUM_SIZES = {metadata.num_sizes};
const OUTPUT_BYTES = {metadata.output_bytes};
const OUTPUT_DIMS = {metadata.output_dims};
const IMPORTS = {{ {imports} }};
{_TEXT}"""


def _rows(arrays: tuple[ArrayInfo, ...]) -> str:
    return "".join(f"\n  {_row(array)}," for array in arrays) + "\n" * bool(arrays)


def _row(array: ArrayInfo) -> str:
    numbers = 2 if array.dtype in ("c64", "c128") else 1
    shape = ",".join("?" if dim is None else str(dim) for dim in array.dims)
    facts = {"name": array.name, "shape": f"{array.dtype}[{shape}]", "dims": array.dims}
    text = ", ".join(f"{key}: {json.dumps(value)}" for key, value in facts.items())
    return f"{{ {text}, numbers: {numbers}, array: {_ARRAYS.get(array.dtype, 'Uint8Array')} }}"
