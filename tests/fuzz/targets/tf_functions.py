# SPDX-License-Identifier: Apache-2.0
"""Random TensorFlow functions, compiled by Ingot, beside TensorFlow not compiled.

A case is a Python file: a function of some arrays, called as it is, through a gradient tape inside
the compiled function, or with a signature that leaves sizes open. An op that Ingot says that it
cannot compile is no finding.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from tests.fuzz.close_results import difference_of_leaves
from tests.fuzz.python_programs import FLOAT, Variable, Writer, indented
from tests.fuzz.target import Target
from tests.fuzz.tf_lines import MAKERS

_HEAD = "import numpy as np, tensorflow as tf\n"


def generate(choose: random.Random) -> bytes:
    """Return a program."""
    writer = Writer(choose, full="tf.fill({shape}, {value})")
    shapes = [writer.shape() for _ in range(choose.randint(1, 3))]
    writer.pool = [Variable(f"x{n}", shape) for n, shape in enumerate(shapes)]
    writer.grow(choose.randint(3, 14), MAKERS)
    results = [item for item in writer.pool if not item.name.startswith("x")][-4:]
    names = ", ".join(item.name for item in results) or "x0"
    given = ", ".join(f"x{n}" for n in range(len(shapes)))
    drawn = ", ".join(f"draw.normal(size={shape}).astype(np.float32)" for shape in shapes)
    floats = [item.name for item in results if item.kind == FLOAT] or ["x0"]
    total = " + ".join(f"tf.reduce_sum(tf.tanh({name}))" for name in floats)
    text = (
        f"{_HEAD}draw = np.random.default_rng({choose.randint(0, 1 << 20)})\nINPUTS = [{drawn}]\n"
        f"def program({given}):\n{indented([*writer.lines, f'return ({names},)'])}\n"
        f"def loss({given}):\n{indented([*writer.lines, f'return {total}'])}\n"
    )
    wanted = choose.choice(("program", "program", "gradient", "open"))
    if wanted == "gradient":
        text += (
            f"def RUN({given}):\n    with tf.GradientTape() as tape:\n"
            f"        tape.watch([{given}])\n        value = loss({given})\n"
            # TensorFlow itself cannot run a function that gives `IndexedSlices` beside tensors.
            f"    found = tape.gradient(value, [{given}])\n"
            f"    return [tf.convert_to_tensor(g) for g in found if g is not None]\n"
        )
    else:
        text += "RUN = program\n"
    if wanted == "open":
        specs = [f"tf.TensorSpec({[None] * len(shape)}, tf.float32)" for shape in shapes]
        text += f"SIGNATURE = [{', '.join(specs)}]\n"
    return text.encode()


def check(data: bytes) -> str:
    """Compare the compiled function with TensorFlow's own."""
    import tensorflow as tf

    import ingot.tensorflow

    ingot.tensorflow.enable()
    names: dict[str, Any] = {}
    exec(compile(data, "<case>", "exec"), names)
    run, signature = names["RUN"], names.get("SIGNATURE")
    inputs = [tf.constant(value) for value in names["INPUTS"]]
    # It takes `reduce_min(tanh(split(x)[1]))` for that of `split(x)[0]`.
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
    plain = tf.function(run, input_signature=signature)
    try:
        want = _leaves(plain(*inputs))
    except ValueError as error:
        if "Cannot infer argument `num`" in str(error):
            return ""  # `unstack` of as many arrays as nothing says: TensorFlow makes no graph
        raise
    near = _leaves(plain(*[value * np.float32(1 + 2e-6) for value in inputs]))
    try:
        compiled = tf.function(run, jit_compile=True, input_signature=signature)
        got = _leaves(compiled(*inputs))
    except tf.errors.InvalidArgumentError as error:
        if "INGOT03" in str(error):
            return ""
        raise
    return difference_of_leaves(got, want, near)


def _leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    import tensorflow as tf

    return [np.asarray(leaf) for leaf in tf.nest.flatten(value)]


TARGET = Target("tf_functions", ".py", generate, check, share=2.0, seconds=180.0, memory=48 << 30)
