// Runs modules of `tests/aot/cross.py`: node run_wasm.js FOLDER < cases.json
// A case: name, symbol, dims of each input, and where in `sizes` the results' bytes begin.
const fs = require("fs");
const folder = process.argv[2];
const cases = JSON.parse(fs.readFileSync(0, "utf8"));

function run(one) {
  const module = new WebAssembly.Module(fs.readFileSync(`${folder}/${one.name}.wasm`));
  const remainder = (a, b) => a % b;
  const env = { fmod: remainder, fmodf: remainder };
  const { exports } = new WebAssembly.Instance(module, { env });
  const call = (name, ...args) => exports[`${one.symbol}_${name}`](...args);
  const bytes = () => new Uint8Array(exports.memory.buffer);
  const place = (data) => {
    const at = call("allocate", data.length);
    bytes().set(data, at);
    return at;
  };
  // Every slot of a table has 8 bytes.
  const table = (numbers) => place(new Uint8Array(BigUint64Array.from(numbers, BigInt).buffer));
  if (one.weights) {
    const data = fs.readFileSync(`${folder}/${one.name}.weights`);
    const status = call("set_weights", place(data), BigInt(data.length));
    if (status) return status;
  }
  const dims = table(one.dims.map((row) => table(row)));
  const sizes = table(new Array(one.num_sizes).fill(0));
  let status = call("prepare", dims, sizes);
  if (status) return status;
  const size = (n) => Number(new BigInt64Array(exports.memory.buffer, sizes)[n]);
  const args = table(one.dims.map((_, n) => place(fs.readFileSync(`${folder}/${one.name}.in${n}`))));
  const counts = one.results.map((_, n) => size(one.output_bytes + n));
  const places = counts.map((count) => call("allocate", count));
  const results = table(places);
  for (let round = 0; round < 3 && !status; ++round) status = call("execute", args, results, sizes);
  places.forEach((at, n) =>
    fs.writeFileSync(`${folder}/${one.name}.out${n}`, bytes().slice(at, at + counts[n])));
  return status;
}

for (const one of cases) {
  let said;
  try { said = run(one); } catch (error) { said = error.stack; }
  console.log(one.name, said);
}
