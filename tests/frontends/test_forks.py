# SPDX-License-Identifier: Apache-2.0
"""Forks of a process whose other threads compile and execute through TensorFlow or JAX.

What docs/execution_abi.md says of children: those that use NumPy or Ingot itself, and those that
run what the framework compiled before. Each kind is forked while three threads compile.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

JAX = """
import jax, jax.numpy as jnp
def fresh(number):
    return jax.jit(lambda x: jnp.tanh(x @ x + number).sum())
base = jnp.ones((512, 512))
REFUSED = "JAX cannot compile in a forked child"
"""
TENSORFLOW = """
import tensorflow as tf, ingot.tensorflow
ingot.tensorflow.enable()
def fresh(number):
    @tf.function(jit_compile=True)
    def step(x):
        return tf.reduce_sum(tf.tanh(x @ x + number))
    return step
base = tf.ones((512, 512))
REFUSED = ""
"""
PROGRAM = """
import faulthandler, multiprocessing, os, signal, sys, threading
import numpy as np
import ingot
faulthandler.dump_traceback_later(240, exit=True)  # Who hangs says where.
faulthandler.register(signal.SIGALRM, chain=True)
TEXT = '''HloModule m
ENTRY e { x = f32[512,512] parameter(0)
  c = f32[] constant(NUMBER)
  b = f32[512,512] broadcast(c), dimensions={}
  s = f32[512,512] add(x, b)
  ROOT y = f32[512,512] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0} }'''

known = fresh(0.0)
wanted = float(known(base))

def numpy_alone():
    rows = np.random.default_rng(0).standard_normal((100, 100))
    return bool(np.isfinite(rows @ rows).all())

def ingot_itself():
    executable = ingot.compile(ingot.parse_hlo(TEXT.replace("NUMBER", str(os.getpid()))))
    found = executable(np.ones((512, 512), np.float32))[0, 0]
    return bool(np.isclose(found, 512 * (1 + os.getpid()) ** 2, rtol=1e-4))

def compiled_before():
    return float(known(base)) == wanted

def compiled_here():
    if not REFUSED:
        return True  # TensorFlow makes no promise.
    try:
        fresh(7.0)(base)
    except Exception as error:
        return REFUSED in str(error)
    return False

def in_child(check):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # A child needs 4 s on a machine with 9 processes per core.
        status = 1
        try:
            status = 0 if check() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def read_row(number):
    return float(np.full(1000, number).sum())

goes_on, problems, done = True, [], [0, 0, 0]

def work(number):
    while goes_on:
        try:
            fresh(float(10 + number + 3 * done[number]))(base)
            assert float(known(base)) == wanted
        except BaseException as problem:
            problems.append(repr(problem))
        done[number] += 1

threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
checks = (numpy_alone, ingot_itself, compiled_before, compiled_here)
try:
    statuses = {check.__name__: [in_child(check) for _ in range(3)] for check in checks}
    with multiprocessing.get_context("fork").Pool(2) as pool:  # Like the workers of a data loader.
        rows = pool.map_async(read_row, range(20)).get(60)
finally:
    goes_on = False
for thread in threads:
    thread.join()
assert statuses == {check.__name__: [0, 0, 0] for check in checks}, statuses
assert rows == [1000.0 * number for number in range(20)], rows
assert not problems and min(done), (problems, done)
print("all right")
"""


@pytest.mark.parametrize(("module", "head"), [("jax", JAX), ("tensorflow", TENSORFLOW)])
def test_children_of_a_process_that_compiles(module: str, head: str) -> None:
    pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", head + PROGRAM],
        env={**os.environ, "JAX_PLATFORMS": "ingot"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout == "all right\n", done.stderr
