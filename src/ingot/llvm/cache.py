"""The cache of compiled objects: in memory and on disk, by content.

Called by `jit.compile_object` only. The key is a hash of everything that determines the object
(IR text, triple, CPU, features, pipeline, LLVM version), so an entry is never stale.

Invariant: the disk is never trusted: an entry carries a checksum, a corrupted or unreadable one is
a miss, a write is a rename and a failing write is no error (read-only home, full disk).
`INGOT_CACHE_DIR` moves it, `INGOT_CACHE=0` turns the disk off, `INGOT_CACHE_MB` caps it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from ingot.support import flags

_MAGIC = b"INGOTOBJ1"
_DIGEST_BYTES = 32
_MEMORY_BYTES = 64 << 20
_SWEPT = "swept"
"""A file whose time says when a process last swept."""
_WRITES_PER_SWEEP = 1024
_SECONDS_PER_SWEEP = 3600


class ObjectCache:
    """Bytes by key; two levels, thread-safe. `directory=None` keeps to memory."""

    def __init__(self, directory: Path | None, disk_bytes: int = 512 << 20) -> None:
        """Use `directory` (made on the first write), at most `disk_bytes` of it."""
        self.directory = directory
        self.disk_bytes = disk_bytes
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._memory_bytes = 0
        self._lock = threading.Lock()
        self._writes = 0

    @staticmethod
    def key(*parts: str) -> str:
        """Return the key of an object made from `parts`."""
        digest = hashlib.sha256()
        for part in parts:
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "little"))
            digest.update(encoded)
        return digest.hexdigest()

    def get(self, key: str) -> bytes | None:
        """Return the object, or None."""
        with self._lock:
            found = self._memory.get(key)
            if found is not None:
                self._memory.move_to_end(key)
                return found
        data = self._read(key)
        if data is not None:
            self._remember(key, data)
        return data

    def put(self, key: str, data: bytes) -> None:
        """Keep the object in memory and on disk."""
        self._remember(key, data)
        if self.directory is not None:
            with contextlib.suppress(OSError):
                self._write(self.directory, key, data)

    def clear_memory(self) -> None:
        """Forget what is held in memory; the disk keeps its entries."""
        with self._lock:
            self._memory.clear()
            self._memory_bytes = 0

    def _remember(self, key: str, data: bytes) -> None:
        with self._lock:
            if key in self._memory:
                return
            self._memory[key] = data
            self._memory_bytes += len(data)
            while self._memory_bytes > _MEMORY_BYTES and len(self._memory) > 1:
                _, dropped = self._memory.popitem(last=False)
                self._memory_bytes -= len(dropped)

    def _path(self, directory: Path, key: str) -> Path:
        return directory / "objects" / key[:2] / f"{key}.o"

    def _read(self, key: str) -> bytes | None:
        if self.directory is None:
            return None
        path = self._path(self.directory, key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + _DIGEST_BYTES
        data = content[head:]
        if content[:head] != _MAGIC + hashlib.sha256(data).digest():
            return None
        # The file's time is its last use: the sweep drops the longest unused.
        with contextlib.suppress(OSError):
            os.utime(path)
        return data

    def _write(self, directory: Path, key: str, data: bytes) -> None:
        path = self._path(directory, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(data).digest() + data)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._writes += 1
        is_first = self._writes == 1 and self._is_swept_rarely(directory)
        if is_first or self._writes % _WRITES_PER_SWEEP == 0:
            self.sweep()

    def _is_swept_rarely(self, directory: Path) -> bool:
        """Whether no process has swept of late: a sweep looks at every file."""
        try:
            return time.time() - (directory / _SWEPT).stat().st_mtime > _SECONDS_PER_SWEEP
        except OSError:
            return True

    def sweep(self) -> None:
        """Remove the longest unused entries until the disk limit holds."""
        if self.directory is None:
            return
        with contextlib.suppress(OSError):
            (self.directory / _SWEPT).touch()
        entries = sorted(_entries(self.directory / "objects"))
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= self.disk_bytes:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


def _entries(folder: Path) -> Iterator[tuple[float, int, str]]:
    """Return (last use, bytes, path) of every file; other processes may remove some meanwhile."""
    for shard in _scan(folder):
        for entry in _scan(shard):
            with contextlib.suppress(OSError):
                status = entry.stat()
                yield status.st_mtime, status.st_size, entry.path


def _scan(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


_default: tuple[tuple[bool, str, int], ObjectCache] | None = None
_default_lock = threading.Lock()


def default_cache() -> ObjectCache:
    """Return the process's cache as the environment describes it now."""
    global _default
    settings = (flags.CACHE.value(), flags.CACHE_DIR.value(), flags.CACHE_MB.value())
    on, directory, megabytes = settings
    with _default_lock:
        if _default is None or _default[0] != settings:
            path = Path(directory) if on else None
            _default = settings, ObjectCache(path, megabytes << 20)
        return _default[1]
