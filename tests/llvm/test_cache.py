"""The object cache: hits, disk, corruption, limits."""

import os
from pathlib import Path

import pytest

from ingot.llvm import jit
from ingot.llvm.cache import ObjectCache, default_cache
from ingot.llvm.target import TargetSpec

IR = "define i64 @f() {\nentry:\n  ret i64 7\n}\n"


def entries(directory: Path) -> list[Path]:
    return sorted(path for path in (directory / "objects").rglob("*") if path.is_file())


def test_an_object_is_found_again_by_another_process(tmp_path: Path) -> None:
    ObjectCache(tmp_path).put("ab12", b"object")
    assert ObjectCache(tmp_path).get("ab12") == b"object"
    assert ObjectCache(tmp_path).get("ab13") is None


def test_memory_alone_writes_nothing(tmp_path: Path) -> None:
    cache = ObjectCache(None)
    cache.put("ab12", b"object")
    assert cache.get("ab12") == b"object"
    assert entries(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"INGOTOBJ1", b"garbage" * 20])
def test_a_corrupted_entry_is_a_miss(tmp_path: Path, damage: bytes) -> None:
    ObjectCache(tmp_path).put("ab12", b"object" * 10)
    (path,) = entries(tmp_path)
    path.write_bytes(damage)
    assert ObjectCache(tmp_path).get("ab12") is None


def test_a_changed_byte_is_a_miss(tmp_path: Path) -> None:
    ObjectCache(tmp_path).put("ab12", b"object" * 10)
    (path,) = entries(tmp_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert ObjectCache(tmp_path).get("ab12") is None


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    for number in range(5):
        cache.put(f"{number:02d}cd", b"x")
    assert all(path.suffix == ".o" for path in entries(tmp_path))


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = ObjectCache(blocked)
    cache.put("ab12", b"object")
    assert cache.get("ab12") == b"object"


def test_the_longest_unused_entries_go_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, disk_bytes=2500)
    for number in range(4):
        cache.put(f"{number:02d}", bytes(1000))
    for number, path in enumerate(entries(tmp_path)):
        os.utime(path, (number, number))
    cache.sweep()
    assert [path.stem for path in entries(tmp_path)] == ["02", "03"]


def test_a_process_does_not_sweep_soon_after_another(tmp_path: Path) -> None:
    ObjectCache(tmp_path, disk_bytes=500).put("01", bytes(1000))
    assert entries(tmp_path) == []
    ObjectCache(tmp_path, disk_bytes=500).put("02", bytes(1000))
    assert [path.stem for path in entries(tmp_path)] == ["02"]


def test_the_key_tells_where_parts_end() -> None:
    assert ObjectCache.key("ab", "c") != ObjectCache.key("a", "bc")
    assert ObjectCache.key("ab", "c") == ObjectCache.key("ab", "c")


def test_the_environment_chooses_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("INGOT_CACHE", raising=False)
    jit.compile_object(IR, TargetSpec.host())
    assert len(entries(tmp_path)) == 1
    monkeypatch.setenv("INGOT_CACHE", "0")
    assert default_cache().directory is None


def test_the_target_is_part_of_the_key(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    for level in ("avx512", "avx2", "avx2"):
        jit.compile_object(IR, TargetSpec.at_level(level), cache=cache)
    assert len(entries(tmp_path)) == 2


def test_a_cached_object_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ObjectCache(None)
    first = jit.compile_object(IR, TargetSpec.host(), cache=cache)

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(jit, "_emit", refuse)
    assert jit.compile_object(IR, TargetSpec.host(), cache=cache) == first
