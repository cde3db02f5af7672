# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends an endless loop of TensorFlow, JAX and PyTorch, and they go on working."""

import os
import subprocess
import sys

import pytest

_FRAME = """
import os, signal, subprocess, sys, time
{setup}
def attempt(call):
    # From another process: this one may hold the GIL.
    sender = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.6; kill -INT {{os.getpid()}}"])
    try:
        try:
            call()
            print("done")
        except (RuntimeError, ValueError) as error:
            # A short program runs in JAX's call, whose own error comes first; int() has another.
            assert "CANCELLED" in str(error)
        time.sleep(3)
    except KeyboardInterrupt:
        print("KeyboardInterrupt")
    sender.wait()
    time.sleep(1.5)
for loop in loops:
    print(loop(-7))
    attempt(lambda: loop(0))
    attempt(lambda: loop(0))
    print(loop(-9))
"""

_JAX = """
import jax, jax.numpy as jnp
def loop_of(step, start):
    def whole(x):
        return jax.lax.while_loop(lambda s: s[0] != -1, lambda s: (s[0] + 2, step(s[1])),
                                  (x, start))[0]
    compiled = jax.jit(whole)
    return lambda x: int(compiled(jnp.int32(x)))
loops = [loop_of(lambda s: s @ s, jnp.zeros((64, 64))), loop_of(lambda s: s * s, jnp.float32(1))]
"""

_TENSORFLOW = """
import tensorflow as tf, ingot.tensorflow
ingot.tensorflow.enable()
variable = tf.Variable(tf.zeros((64, 64)))
@tf.function(jit_compile=True)
def plain(x):
    return tf.while_loop(lambda i, s: i != -1, lambda i, s: (i + 2, tf.matmul(s, s)),
                         (x, tf.zeros((64, 64))))[0]
@tf.function(jit_compile=True)
def updating(x):
    found = tf.while_loop(lambda i, s: i != -1, lambda i, s: (i + 2, tf.matmul(s, s)),
                          (x, variable + 0))[0]
    variable.assign_add(tf.ones((64, 64)))
    return found
loops = [lambda x, f=f: f(tf.constant(x)).numpy() for f in (plain, updating)]
"""

_TORCH = """
import torch
def plain(x):
    step = lambda i, s: (i + 2, s @ s)
    return torch._higher_order_ops.while_loop(
        lambda i, s: i != -1, step, (x, torch.zeros((64, 64))))[0]
compiled = torch.compile(plain, backend="ingot", fullgraph=True)
loops = [lambda x: compiled(torch.tensor(x)).item()] * 2
"""


@pytest.mark.slow
@pytest.mark.parametrize("setup", [_JAX, _TENSORFLOW, _TORCH], ids=["jax", "tensorflow", "torch"])
def test_ctrl_c_ends_a_loop_and_the_next_call_works(setup: str) -> None:
    environment = {**os.environ, "JAX_PLATFORMS": "ingot"}
    command = [sys.executable, "-c", _FRAME.format(setup=setup)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    one = ["-1", "KeyboardInterrupt", "KeyboardInterrupt", "-1"]
    assert done.stdout.split() == one * 2
    assert "Exception ignored" not in done.stderr
