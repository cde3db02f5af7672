# SPDX-License-Identifier: Apache-2.0
"""The page of `examples/digits_page.py`: a Keras convnet in WebAssembly, in Node and Chromium."""

import re
import shutil
import subprocess

import numpy as np
import pytest

import digits
import digits_page
import keras_cnn

NODE, CHROMIUM = shutil.which("node"), shutil.which("chromium")

SCRIPT = """
import {{ readFileSync, writeFileSync }} from "node:fs";
{code}
const bytes = Buffer.from("{wasm}", "base64");
const program = await Program.load(new Uint8Array(bytes));
const images = new Float32Array(new Uint8Array(readFileSync("images")).buffer);
const [{{ data, dims }}] = program.run({{ data: images, dims: [images.length / 64, 64] }});
writeFileSync("logits", new Uint8Array(data.buffer));
console.log(dims.join());
"""


@pytest.fixture(scope="module")
def made():
    """Return the model (not trained), the data, and the page."""
    data, model = digits.load(), keras_cnn.make_model(jit_compile=False)
    return model, data, digits_page.make_page(model, data)


@pytest.mark.skipif(NODE is None, reason="no node on this machine")
def test_the_module_in_the_page_computes_what_keras_does(made, tmp_path):
    model, data, page = made
    code = re.search(r'<script type="module">(.*)// The page\.', page, re.DOTALL)[1]
    wasm = re.search(r'atob\("([^"]*)"\)', page)[1]
    (tmp_path / "images").write_bytes(data.test_images.tobytes())
    (tmp_path / "main.mjs").write_text(SCRIPT.format(code=code, wasm=wasm))
    done = subprocess.run(
        [NODE, "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    count = len(data.test_images)
    assert done.stdout == f"{count},10\n", done.stderr
    logits = np.fromfile(tmp_path / "logits", np.float32).reshape(count, 10)
    expected = model.predict(data.test_images, verbose=0)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_the_page_needs_no_network(made):
    *_, page = made
    assert not re.findall(r'(?:src|href)="|https?://|import ', page)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_the_page_runs_in_a_browser(made, tmp_path):
    model, data, page = made
    (tmp_path / "page.html").write_text(page)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000"]
    done = subprocess.run(
        [CHROMIUM, *flags, "--dump-dom", f"file://{tmp_path / 'page.html'}#check"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    found = re.search(r"<title>(\d+) of (\d+); \d,\d</title>", done.stdout)
    images, labels = (each[: digits_page.SAMPLES] for each in (data.test_images, data.test_labels))
    best = model.predict(images, verbose=0).argmax(axis=1)
    assert [int(found[1]), int(found[2])] == [(best == labels).sum(), digits_page.SAMPLES]
