# SPDX-License-Identifier: Apache-2.0
"""The C++ class of an artifact has tfcompile's members and computes what the program does."""

import shutil
import subprocess

import pytest
from tests.aot.programs import PROGRAMS

from ingot.tools.cli import main

GXX = shutil.which("g++")

SOURCE = r"""
#include <cstdio>
#include "net.hpp"

int main() {
  my::app::Net net;
  for (int i = 0; i < 6; ++i) net.arg0_data()[i] = i + 1;
  if (!net.Run()) { std::puts(net.error_msg()); return 1; }
  std::printf("%g %g %g|%s|\n", net.result0(0, 0), net.result0(2, 2), net.result2(1, 0),
              net.error_msg());
  my::app::Net borrowed(my::app::Net::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
  if (borrowed.Run()) return 2;
  std::puts(borrowed.error_msg());
  float x[6] = {1};
  borrowed.set_arg0_data(x);
  if (!borrowed.Run()) return 3;
  std::printf("%g %d\n", borrowed.result0(0, 2), (int)borrowed.result0_count());
}
"""


def run_aot(folder, name, cpp_class):
    (folder / "net.hlo").write_text(PROGRAMS[name])
    arguments = ["--level=plain", f"--cpp_class={cpp_class}", "--entry_point=net_entry"]
    return main(["aot", f"{folder / 'net.hlo'}", "-o", f"{folder / 'net'}", *arguments])


@pytest.mark.skipif(GXX is None, reason="no g++ on this machine")
def test_the_class_runs(tmp_path):
    assert run_aot(tmp_path, "weights", "my::app::Net") == 0
    (tmp_path / "main.cc").write_text(SOURCE)
    command = [
        GXX,
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "main.cc",
        "net.o",
        "-lm",
        "-o",
        "m",
    ]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run(["./m"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["9 51 4||", "an argument has no data", "3 9"]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("name", "cpp_class", "message"),
    [("weights", "1Net", "name of a C++ class"), ("symbolic", "Net", "has symbolic sizes")],
)
def test_classes_that_cannot_be_are_refused(tmp_path, capsys, name, cpp_class, message):
    assert run_aot(tmp_path, name, cpp_class) == 1
    assert message in capsys.readouterr().err


def test_a_class_has_an_accessor_of_its_type_for_each_array(tmp_path):
    types = {"bf16": "std::uint16_t", "s64": "std::int64_t", "c64": "std::complex<float>"}
    for name, item in types.items():
        assert run_aot(tmp_path, name, "Net") == 0
        text = (tmp_path / "net.hpp").read_text()
        assert f"  {item}* arg1_data()" in text
        assert f"{item}& result0(std::size_t dim0, std::size_t dim1)" in text
