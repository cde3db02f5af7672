# SPDX-License-Identifier: Apache-2.0
"""Threads of an artifact: its own pool, and a pool with Eigen's functions."""

import shutil
import subprocess

import numpy as np
import pytest
from tests.aot.cross import leaves
from tests.aot.programs import MORE, PROGRAMS

import ingot
from ingot.aot.build import compile_aot
from ingot.tools.cli import main
from ingot.tools.programs.inputs import random_inputs

GCC, GXX = shutil.which("gcc"), shutil.which("g++")

BIG = """
HloModule big
ENTRY main {
  x = f32[2000,600] parameter(0)
  e = f32[2000,600] exponential(x)
  ROOT y = f32[2000,600] add(e, x)
}
"""

C_SOURCE = r"""
#include <dirent.h>
#include <stdio.h>
#include "big.h"
static float x[1200000], y[1200000], z[1200000];
static int threads(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/task");
  while (readdir(folder)) ++count;
  closedir(folder);
  return count - 2;
}
int main(void) {
  for (int i = 0; i < 1200000; ++i) x[i] = (i % 13) * 0.25f;
  const void* args[] = {x};
  void *first[] = {y}, *second[] = {z};
  if (big(args, first)) return 1;
  printf("%d ", threads());
  printf("%d ", big_set_threads(3));
  for (int round = 0; round < 50; ++round)
    if (big(args, second)) return 2;
  printf("%d ", threads());
  for (int i = 0; i < 1200000; ++i) if (y[i] != z[i]) return 3;
  printf("%d %d\n", big_set_threads(0), big_set_threads(5000));
  return 0;
}
"""

CPP_SOURCE = r"""
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>
#include "big.hpp"

// As Eigen::ThreadPoolDevice, with a thread for each task.
struct Device {
  mutable std::vector<std::thread> threads;
  std::size_t numThreads() const { return 3; }
  template <class F> void enqueueNoNotification(F f) const { threads.emplace_back(f); }
};

// Its tasks begin when nobody waits for them any more.
struct LateDevice {
  mutable std::vector<std::function<void()>> tasks;
  std::size_t numThreads() const { return 2; }
  template <class F> void enqueueNoNotification(F f) const { tasks.push_back(f); }
};

int main() {
  Big net;
  Device device;
  LateDevice late;
  for (std::size_t i = 0; i < net.arg0_count(); ++i) net.arg0_data()[i] = (i % 7) * 0.5f;
  if (!net.Run()) return 1;
  std::vector<float> alone(net.result0_data(), net.result0_data() + net.result0_count());
  net.set_thread_pool(&device);
  for (int round = 0; round < 20; ++round) {
    std::fill(net.result0_data(), net.result0_data() + net.result0_count(), 0.f);
    if (!net.Run()) return 2;
    for (std::size_t i = 0; i < alone.size(); ++i) if (alone[i] != net.result0_data()[i]) return 3;
  }
  for (std::thread& thread : device.threads) thread.join();
  net.set_thread_pool(&late);
  if (!net.Run()) return 4;
  for (std::function<void()>& task : late.tasks) task();
  net.set_thread_pool(static_cast<const Device*>(nullptr));
  if (!net.Run()) return 5;
  std::printf("%d %d\n", device.threads.size() > 0, late.tasks.size() > 0);
  std::printf("%d %d %s %s %d\n", net.num_args(), (int)net.arg_size(0), Big::StaticArgNames()[0],
              Big::StaticResultNames()[0], Big::LookupArgIndex("x") + Big::LookupArgIndex("q"));
  std::printf("%d %d\n", net.arg_feed_x_data() == net.arg_data(0), (int)Big::arg_feed_x_size());
}
"""


def write(folder, text, name, *options):
    (folder / f"{name}.hlo").write_text(text)
    command = ["aot", str(folder / f"{name}.hlo"), "-o", str(folder / name), "--level=plain"]
    assert main([*command, *options]) == 0


@pytest.mark.skipif(GCC is None, reason="no gcc on this machine")
@pytest.mark.parametrize("linked", ["big.o", "-lbig"])
def test_a_pool_of_its_own_starts_when_it_is_asked_for(tmp_path, linked):
    write(tmp_path, BIG, "big", "--threads=own")
    (tmp_path / "main.c").write_text(C_SOURCE)
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-L.", "-Wl,-rpath,."]
    command = [GCC, *flags, "main.c", linked, "-lm", "-pthread", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 3 3 1 1024\n")


@pytest.mark.parametrize("name", ["batched", "reductions", "layers", "transform"])
def test_results_do_not_depend_on_the_number_of_threads(tmp_path, name):
    module = ingot.parse_hlo((PROGRAMS | MORE)[name])
    path = tmp_path / "lib.so"
    path.write_bytes(compile_aot(module, f"t_{name}", "plain", threads="own").library)
    inputs = random_inputs(module, 2)
    run = ingot.load_executable(path)
    alone = run(*inputs)
    assert run.set_threads(4) == 4
    for _ in range(20):
        together = run(*inputs)
        for one, other in zip(leaves(alone), leaves(together), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(GXX is None, reason="no g++ on this machine")
def test_a_pool_with_the_functions_of_eigen(tmp_path):
    write(tmp_path, BIG, "big", "--cpp-class=Big")
    (tmp_path / "main.cc").write_text(CPP_SOURCE)
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread"]
    command = [GXX, *flags, "main.cc", "big.o", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 1\n1 4800000 x result0 -1\n1 4800000\n")


def test_a_library_without_a_pool_says_so(tmp_path):
    path = tmp_path / "lib.so"
    module = ingot.parse_hlo(PROGRAMS["f32"])
    path.write_bytes(compile_aot(module, "alone", "plain").library)
    with pytest.raises(ingot.UnsupportedError, match="has no thread pool of its own"):
        ingot.load_executable(path, threads=2)
    for options in ({"threads": "many"}, {"threads": "own", "triple": "wasm32-unknown-unknown"}):
        with pytest.raises(ingot.UnsupportedError, match=r"threads cannot be|has no threads"):
            compile_aot(module, "alone", **options)
