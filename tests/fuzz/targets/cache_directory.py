# SPDX-License-Identifier: Apache-2.0
"""Cache directories that something happened to: compiling must still give right results.

A case is JSON: a program, and what happens to the directory after it was compiled once, and in
another thread while it is compiled again. Afterwards the results must be right, files that are not
the cache's must be as they were, and an entry of a trusted directory must be usable again.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.target import Target

import ingot
from ingot.client import clear_caches
from ingot.llvm.cache import ObjectCache

_PROGRAM = """\
HloModule cached

ENTRY main {{
  x = f32[{rows},{columns}] parameter(0)
  scale = f32[] constant({scale})
  scales = f32[{rows},{columns}] broadcast(scale), dimensions={{}}
  y = f32[{rows},{columns}] multiply(x, scales)
  z = f32[{columns},{rows}] transpose(y), dimensions={{1,0}}
  ROOT w = f32[{columns},{rows}] {opcode}(z)
}}
"""
_OPCODES: dict[str, Callable[[Any], Any]] = {
    "negate": np.negative, "abs": np.abs, "sine": np.sin, "floor": np.floor,
}  # fmt: skip
_CANARY = b"a file that is nobody's but the user's"

Damage = Callable[[random.Random, Path, Path], None]
"""Does something to an entry; the second path is a folder outside of the cache."""


def _content(entry: Path) -> bytes:
    """Return what a file holds, if it can be read to its end and is not another's.

    What somebody else wrote (`_forge`) must not come to stand in a file of this user's.
    """
    status = entry.lstat()
    is_small = stat.S_ISREG(status.st_mode) and status.st_size < 1 << 20
    return entry.read_bytes() if is_small and not status.st_mode & 0o022 else b"x"


def _replace(entry: Path, content: bytes, *, size: int = 0, mode: int = 0o600) -> None:
    """Put a new file in the place of an entry, which may be a link to something else."""
    made = entry.parent / f"new{threading.get_ident()}"
    made.write_bytes(content)
    if size:
        os.truncate(made, size)
    made.chmod(mode)
    os.replace(made, entry)


def _cut(choose: random.Random, entry: Path, _: Path) -> None:
    content = _content(entry)
    _replace(entry, content[: choose.randrange(len(content) + 1)])


def _flip(choose: random.Random, entry: Path, _: Path) -> None:
    content = bytearray(_content(entry) or b"x")
    content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
    _replace(entry, bytes(content))


def _extend(choose: random.Random, entry: Path, _: Path) -> None:
    _replace(entry, _content(entry) + choose.randbytes(choose.choice((1, 100, 5000))))


def _grow(choose: random.Random, entry: Path, _: Path) -> None:
    _replace(entry, _content(entry), size=choose.choice((1 << 20, 1 << 30, 1 << 40)))


def _swap(choose: random.Random, entry: Path, _: Path) -> None:
    other = choose.choice(_entries(entry.parents[2]) or [entry])
    content = _content(entry)
    _replace(entry, _content(other))
    _replace(other, content)


def _rename(choose: random.Random, entry: Path, _: Path) -> None:
    other = choose.choice(_entries(entry.parents[2]) or [entry])
    os.replace(entry, other)


def _link(choose: random.Random, entry: Path, outside: Path) -> None:
    copy = outside / "copy.o"
    copy.write_bytes(_content(entry))
    entry.unlink()
    target = (copy, outside / "canary", outside / "missing", entry, Path("/dev/null"))
    entry.symlink_to(choose.choice(target))


def _hard_link(_: random.Random, entry: Path, outside: Path) -> None:
    entry.unlink()
    os.link(outside / "canary", entry)


def _fifo(_: random.Random, entry: Path, __: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def _socket(_: random.Random, entry: Path, __: Path) -> None:
    entry.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(entry))


def _folder(choose: random.Random, entry: Path, _: Path) -> None:
    entry.unlink()
    entry.mkdir()
    if choose.random() < 0.5:
        (entry / "file").write_bytes(b"x")


def _mode(choose: random.Random, entry: Path, _: Path) -> None:
    mode = choose.choice((0, 0o444, 0o620, 0o602, 0o666, 0o777, 0o4755))
    _replace(entry, _content(entry), mode=mode)


def _owner(choose: random.Random, entry: Path, _: Path) -> None:
    if os.geteuid() == 0:
        os.chown(entry, choose.choice((0, 1, 65534)), -1, follow_symlinks=False)


def _forge(choose: random.Random, entry: Path, outside: Path) -> None:
    """Write an entry with a right checksum for other bytes, as somebody else may."""
    if not entry.stem.isascii():
        return  # A stranger's file, whose name is no key.
    forged = ObjectCache(outside / "forged")
    forged.put(entry.stem, choose.randbytes(200))
    (made,) = _entries(outside / "forged")
    _replace(entry, made.read_bytes(), mode=0o666)
    shutil.rmtree(outside / "forged")


def _shard(choose: random.Random, entry: Path, outside: Path) -> None:
    folder = choose.choice((entry.parent, entry.parent.parent))
    action = choose.randrange(4)
    if action == 0:
        folder.chmod(choose.choice((0o777, 0o1777, 0o500)))
        return
    kept = outside / f"kept{choose.getrandbits(32)}"
    shutil.move(folder, kept)
    if action == 1:
        folder.write_bytes(b"a file")
    elif action == 2:
        folder.symlink_to(kept)


def _root(choose: random.Random, entry: Path, outside: Path) -> None:
    root = entry.parents[2]
    action = choose.randrange(5)
    if action == 0:
        root.chmod(choose.choice((0o777, 0o1777, 0o770, 0o500)))
    elif action == 1 and os.geteuid() == 0:
        os.chown(root, 65534, -1)
    elif action == 2:
        shutil.rmtree(root)
    elif action == 3:
        shutil.rmtree(root)
        root.write_bytes(b"a file")
    else:
        shutil.move(root, outside / "moved")
        root.symlink_to(outside / "moved")


def _swept(choose: random.Random, entry: Path, outside: Path) -> None:
    mark = entry.parents[2] / "swept"
    with contextlib.suppress(FileNotFoundError):
        mark.unlink()
    action = choose.randrange(4)
    if action == 0:
        os.mkfifo(mark)
    elif action == 1:
        mark.symlink_to(outside / choose.choice(("canary", "missing")))
    elif action == 2:
        mark.write_bytes(b"")
        os.utime(mark, (1e10, 1e10))
    else:
        mark.mkdir()


def _strangers(choose: random.Random, entry: Path, _: Path) -> None:
    name = choose.choice(("x.tmp", "ingot-x.tmp", "thesis", "0.o", "../ff", "\udcff.o", "a" * 200))
    made = entry.parent / name
    if not made.exists():
        made.write_bytes(choose.randbytes(100))
        os.utime(made, (1, 1))


DAMAGES: dict[str, Damage] = {
    damage.__name__[1:]: damage
    for damage in (
        *(_cut, _flip, _extend, _grow, _swap, _rename, _link, _hard_link, _fifo, _socket, _folder),
        *(_mode, _owner, _forge, _shard, _root, _swept, _strangers),
    )
}


def _entries(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("objects/*/*.o") if not path.is_symlink())


def generate(choose: random.Random) -> bytes:
    """Return a program and what happens to the directory."""
    names = sorted(DAMAGES)
    case = {
        "rows": choose.randint(1, 9),
        "columns": choose.randint(1, 40),
        "scale": choose.randint(-5, 5),
        "opcode": choose.choice(sorted(_OPCODES)),
        "megabytes": choose.choice((1, 1, 512)),
        "seed": choose.getrandbits(32),
        "before": [choose.choice(names) for _ in range(choose.choice((1, 1, 2, 4)))],
        "meanwhile": [choose.choice(names) for _ in range(choose.choice((0, 0, 0, 5)))],
    }
    return json.dumps(case).encode()


def check(data: bytes) -> str:
    """Compile, damage the directory, compile again, and look at what is there."""
    case = json.loads(data)
    here = Path(tempfile.mkdtemp(prefix="ingot-fuzz-cache-"))
    kept = {name: os.environ.get(name) for name in ("INGOT_CACHE_DIR", "INGOT_CACHE_MB")}
    try:
        root, outside = here / "cache", here / "outside"
        outside.mkdir()
        (outside / "canary").write_bytes(_CANARY)
        os.environ["INGOT_CACHE_DIR"] = str(root)
        os.environ["INGOT_CACHE_MB"] = str(case["megabytes"])
        return _check(case, root, outside)
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        clear_caches()
        shutil.rmtree(here, ignore_errors=True)


def _check(case: dict[str, Any], root: Path, outside: Path) -> str:
    wrong = _compile(case)
    choose = random.Random(case["seed"])
    _damage(choose, case["before"], root, outside)
    thread = threading.Thread(target=_damage, args=(choose, case["meanwhile"], root, outside))
    thread.start()
    wrong = wrong or _compile(case)
    thread.join()
    # Nothing happens to the directory any more, unless it is not to be trusted.
    wrong = wrong or _compile(case) or _compile(case)
    if not wrong and (outside / "canary").read_bytes() != _CANARY:
        return "a file outside of the cache was changed"
    return wrong


def _damage(choose: random.Random, names: list[str], root: Path, outside: Path) -> None:
    for name in names:
        entries = _entries(root)
        if entries:
            # Somebody else may be at it too.
            with contextlib.suppress(OSError, shutil.Error):
                DAMAGES[name](choose, choose.choice(entries), outside)
        time.sleep(choose.choice((0, 0, 0.001, 0.01)))


def _compile(case: dict[str, Any]) -> str:
    clear_caches()
    rows, columns, scale = case["rows"], case["columns"], case["scale"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = _PROGRAM.format(**case)
        executable = ingot.compile(ingot.parse_hlo(text))
    x = np.linspace(-9, 9, rows * columns, dtype=np.float32).reshape(rows, columns)
    want = _OPCODES[case["opcode"]](np.ascontiguousarray((x * np.float32(scale)).T))
    got = executable(x)
    return "" if np.allclose(got, want, atol=1e-5) else "a program gives wrong results"


TARGET = Target("cache_directory", ".json", generate, check, share=0.3, runs_compiler=False)
