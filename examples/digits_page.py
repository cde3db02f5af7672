# SPDX-License-Identifier: Apache-2.0
"""A page that says which digit was drawn: a Keras convnet in WebAssembly, in one file, offline.

    python examples/digits_page.py digits.html

Trains the model of `keras_cnn` with Ingot, compiles it ahead of time for WebAssembly, and writes a
page with the module, its JavaScript and some held-out digits inside. Open it in any browser.
"""

import base64
import json
import sys
from pathlib import Path

import digits
import ingot.tensorflow
import keras_cnn
from ingot.aot.build import compile_aot
from ingot.aot.js_module import js_module

EPOCHS = 12
SAMPLES = 24

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Draw a digit</title>
<style>
  :root { color-scheme: light dark; --line: #8886; --ink: #2962ff; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto;
         padding: 0 1rem; }
  main { display: flex; flex-wrap: wrap; gap: 2rem; }
  #board { border: 1px solid var(--line); border-radius: 8px; touch-action: none; background: #fff;
           cursor: crosshair; }
  #answer { font-size: 5rem; line-height: 1; min-height: 5rem; }
  .bar { display: grid; grid-template-columns: 1.5rem 12rem 4rem; align-items: center; gap: .5rem;
         font-variant-numeric: tabular-nums; }
  .bar i { height: .7rem; border-radius: 3px; background: var(--ink); display: block; width: 0; }
  #samples canvas { background: #fff; border: 1px solid var(--line); border-radius: 4px;
                    margin: 2px; padding: 0; image-rendering: pixelated; cursor: pointer; }
  button { font: inherit; }
</style>
<h1>Draw a digit</h1>
<main>
  <div>
    <canvas id="board" width="256" height="256" aria-label="Draw a digit here"></canvas>
    <p><button id="clear">Clear</button> <small id="time"></small></p>
  </div>
  <div>
    <div id="answer" role="status" aria-live="polite"></div>
    <div id="bars"></div>
  </div>
</main>
<p>Or click one that the model has not seen:</p>
<div id="samples"></div>
<p><small>FACTS Nothing is sent anywhere: this page has no network.</small></p>
<script type="module">
MODULE
// The page.
const SAMPLES = SAMPLE_DATA;
const bytes = Uint8Array.from(atob("WASM"), (letter) => letter.charCodeAt(0));
const program = await Program.load(bytes);
const find = (id) => document.getElementById(id);

for (let digit = 0; digit < 10; ++digit) {
  const row = document.createElement("div");
  row.className = "bar";
  row.innerHTML = `<span>${digit}</span><i></i><span></span>`;
  find("bars").append(row);
}

// Pixels are 64 numbers from 0 to 1.
function classify(pixels) {
  const start = performance.now();
  const [{ data }] = program.run({ data: Float32Array.from(pixels), dims: [1, 64] });
  const spent = performance.now() - start;
  const powers = Array.from(data, (value) => Math.exp(value - Math.max(...data)));
  const total = powers.reduce((a, b) => a + b);
  const shares = powers.map((power) => power / total);
  const best = shares.indexOf(Math.max(...shares));
  find("answer").textContent = best;
  find("time").textContent = `${spent.toFixed(2)} ms`;
  shares.forEach((share, digit) => {
    const row = find("bars").children[digit];
    row.children[1].style.width = `${share * 100}%`;
    row.children[2].textContent = `${Math.round(share * 100)} %`;
  });
  return best;
}

// As the data was made: a bitmap of 32 by 32, and the number of set pixels in each block of 4 by 4.
function pixelsOf(strokes) {
  const points = strokes.flat();
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  const [width, height] = [Math.max(...xs) - left, Math.max(...ys) - top];
  const scale = 26 / Math.max(width, height, 26);
  const small = new OffscreenCanvas(32, 32).getContext("2d", { willReadFrequently: true });
  small.lineWidth = 5;
  small.lineCap = small.lineJoin = "round";
  for (const stroke of strokes) {
    small.beginPath();
    for (const [x, y] of [stroke[0], ...stroke])
      small.lineTo(16 + (x - left - width / 2) * scale, 16 + (y - top - height / 2) * scale);
    small.stroke();
  }
  const ink = small.getImageData(0, 0, 32, 32).data;
  const pixels = new Array(64).fill(0);
  for (let at = 0; at < 1024; ++at)
    if (ink[4 * at + 3] > 127) pixels[((at >> 7) << 3) + ((at & 31) >> 2)] += 1 / 16;
  return pixels;
}

const board = find("board").getContext("2d");
let strokes = [];
function paint() {
  board.clearRect(0, 0, 256, 256);
  board.lineWidth = 18;
  board.lineCap = board.lineJoin = "round";
  for (const stroke of strokes) {
    board.beginPath();
    for (const [x, y] of [stroke[0], ...stroke]) board.lineTo(x, y);
    board.stroke();
  }
}
function clear() {
  strokes = [];
  paint();
  find("answer").textContent = "";
}
find("clear").onclick = clear;
find("board").onpointerdown = (event) => {
  find("board").setPointerCapture(event.pointerId);
  strokes.push([[event.offsetX, event.offsetY]]);
  paint();
};
find("board").onpointermove = (event) => {
  if (!event.buttons || !strokes.length) return;
  strokes.at(-1).push([event.offsetX, event.offsetY]);
  paint();
};
find("board").onpointerup = () => { if (strokes.length) classify(pixelsOf(strokes)); };

SAMPLES.forEach(([label, pixels]) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  canvas.style.width = canvas.style.height = "40px";
  canvas.title = `a ${label}`;
  const context = canvas.getContext("2d");
  const image = context.createImageData(8, 8);
  pixels.forEach((value, at) => image.data.set([0, 0, 0, value * 16], 4 * at));
  context.putImageData(image, 0, 0);
  canvas.onclick = () => { clear(); classify(pixels.map((value) => value / 16)); };
  find("samples").append(canvas);
});

// `#check` says how many of the samples are right, and what a drawn 1 and 0 are.
if (location.hash === "#check") {
  const right = SAMPLES.filter(([label, pixels]) => classify(pixels.map((v) => v / 16)) === label);
  const circle = Array.from({ length: 40 }, (_, k) =>
    [128 + 60 * Math.cos(k / 6), 128 + 95 * Math.sin(k / 6)]);
  const drawn = [[[[120, 60], [140, 40], [140, 220]]], [circle]];
  document.title = `${right.length} of ${SAMPLES.length}; ` +
    drawn.map((strokes) => classify(pixelsOf(strokes))).join();
}
</script>
</html>
"""


def make_page(model, data) -> str:
    """Return the page for a trained model."""
    module = ingot.tensorflow.frozen_module(model)
    program = compile_aot(module, "digits", triple="wasm32-unknown-unknown")
    rows = zip(data.test_labels[:SAMPLES], data.test_images[:SAMPLES], strict=True)
    samples = [[int(label), (image * 16).astype(int).tolist()] for label, image in rows]
    code = js_module(program.metadata).replace("export class", "class")
    facts = (
        f"A Keras convnet of {model.count_params():,} parameters, compiled by Ingot to "
        f"{len(program.library) / 1024:.0f} KB of WebAssembly."
    )
    parts = {
        "MODULE": code,
        "SAMPLE_DATA": json.dumps(samples),
        "WASM": base64.b64encode(program.library).decode(),
        "FACTS": facts,
    }
    page = PAGE
    for name, text in parts.items():
        page = page.replace(name, text, 1)
    return page


def main():
    """Train, and write the page."""
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "digits.html")
    ingot.tensorflow.enable()
    data, model = digits.load(), keras_cnn.make_model()
    model.fit(
        data.train_images, data.train_labels, batch_size=keras_cnn.BATCH, epochs=EPOCHS, verbose=0
    )
    _, accuracy = model.evaluate(data.test_images, data.test_labels, verbose=0)
    place.write_text(make_page(model, data), encoding="utf-8")
    print(f"{place}: {place.stat().st_size >> 10} KB, held-out accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
