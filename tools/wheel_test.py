# SPDX-License-Identifier: Apache-2.0
"""Build the wheel and the source distribution, install each in an empty environment, and use it.

What a user gets and no checkout can show: that every file is packed, that the requirements are
complete, that the command and JAX's entry point are there. Nothing of the checkout can be imported:
the programs run in another folder without PYTHONPATH. The distributions stay in `dist/`.

Extras and other Pythons may be named: the wheel is then tested on these too.

Example:
    .venv/bin/python tools/wheel_test.py
    .venv/bin/python tools/wheel_test.py --python python3.13 --extras cli,jax
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "ingot_compiler"
SMOKE = '''
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import numpy as np

import ingot

checkout = Path(sys.argv[1])
assert checkout not in Path(ingot.__file__).parents, ingot.__file__
assert version("ingot-compiler") == ingot.__version__
(plugin,) = entry_points(group="jax_plugins", name="ingot")
assert plugin.value == "ingot.frontends.jax"
module = ingot.parse_hlo("""HloModule axpy
ENTRY main {
  x = f32[?n] parameter(0)
  ROOT sum = f32[?n] add(x, x)
}
""")
run = ingot.compile(module)
assert run(np.ones(3, np.float32)).tolist() == [2, 2, 2]
assert (Path(ingot.__file__).parent / "py.typed").exists()
assert (Path(ingot.__file__).parent / "frontends/tensorflow/lowering/xla_ops.txt").exists()
print("ingot", ingot.__version__, "on Python", sys.version.split()[0], "works")
'''
SMOKE_JAX = """
import jax
assert "ingot" in jax.devices()[0].client.platform_version, jax.devices()
assert jax.jit(lambda x: x * 2)(21) == 42
print("JAX", jax.__version__, "runs on Ingot")
"""


def build() -> tuple[Path, Path]:
    """Build both distributions into `dist/`; return the wheel and the source distribution."""
    output = ROOT / "dist"
    for old in output.glob(f"{NAME}-*"):
        old.unlink()
    run([sys.executable, "-m", "build", "--outdir", str(output), str(ROOT)])
    (wheel,) = output.glob(f"{NAME}-*.whl")
    (source,) = output.glob(f"{NAME}-*.tar.gz")
    return wheel, source


def run(command: list[str], folder: Path | None = None, **variables: str) -> None:
    """Run a command that must succeed, without what would let it see the checkout."""
    print("$", " ".join(command if len(command[-1]) < 200 else [*command[:-1], "..."]), flush=True)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=folder, env={**kept, **variables}, check=True)


def use(distribution: Path, python: str, extras: str) -> None:
    """Install a distribution with extras in an empty environment of `python`, and use it."""
    with tempfile.TemporaryDirectory(prefix="ingot-wheel-") as name:
        folder = Path(name)
        environment, cache = folder / "venv", str(folder / "cache")
        run([python, "-m", "venv", str(environment)])
        own = str(environment / "bin" / "python")
        pip = [own, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        run([*pip, "install", str(distribution)])
        smoke = [own, "-c", SMOKE, str(ROOT)]
        run(smoke, folder, INGOT_CACHE_DIR=cache)
        run([*pip, "install", f"{distribution}[{extras}]"])
        run([str(environment / "bin" / "ingot"), "doctor"], folder, INGOT_CACHE_DIR=cache)
        if {"jax", "all"} & set(extras.split(",")):
            run([own, "-c", SMOKE_JAX], folder, INGOT_CACHE_DIR=cache, JAX_PLATFORMS="ingot")


def main(arguments: list[str]) -> int:
    """Build, install, use; return the exit status."""
    parser = argparse.ArgumentParser(description="Build both distributions and use them.")
    parser.add_argument("--python", action="append", help="a Python to test on; may be repeated")
    parser.add_argument("--extras", default="cli", help="extras to install, with commas")
    given = parser.parse_args(arguments)
    try:
        wheel, source = build()
        for python in given.python or [sys.executable]:
            use(wheel, python, given.extras)
        use(source, sys.executable, "cli")
    except subprocess.CalledProcessError as error:
        print(f"failed with status {error.returncode}: {error.cmd[:3]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
