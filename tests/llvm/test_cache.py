# SPDX-License-Identifier: Apache-2.0
"""The object cache: hits, disk, corruption, limits, and whose files it uses."""

import grp
import os
import pwd
import re
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from ingot.llvm import jit
from ingot.llvm.cache import ObjectCache, default_cache
from ingot.llvm.target import TargetSpec
from ingot.support import trusted_files
from ingot.support.flags import IngotWarning

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


@pytest.mark.parametrize("damage", [b"", b"INGOTOBJ2", b"garbage" * 20])
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


def test_an_entry_under_another_name_is_a_miss_and_is_replaced(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.put("ab12", b"one")
    cache.put("ab13", b"two")
    one, two = entries(tmp_path)
    content = one.read_bytes()
    os.replace(two, one)
    two.write_bytes(content)
    assert [ObjectCache(tmp_path).get(key) for key in ("ab12", "ab13")] == [None, None]
    ObjectCache(tmp_path).put("ab12", b"one")
    assert ObjectCache(tmp_path).get("ab12") == b"one"


is_private_group = trusted_files._is_private_group


@pytest.fixture(autouse=True)
def no_private_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the group that new files have be one with others in it, whoever runs the tests."""
    monkeypatch.setattr(trusted_files, "_is_private_group", lambda user, group: False)


def place_link(path: Path) -> None:
    os.rename(path, path.with_suffix(".kept"))
    path.symlink_to(path.with_suffix(".kept"))


def place_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def place_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def place_sparse(path: Path) -> None:
    os.truncate(path, 1 << 40)


def open_to_group(path: Path) -> None:
    path.chmod(0o620)


def open_to_all(path: Path) -> None:
    path.chmod(0o602)


REFUSED = (place_link, place_fifo, place_folder, place_sparse, open_to_group, open_to_all)


@pytest.mark.parametrize("damage", REFUSED)
def test_a_foreign_file_is_a_miss(tmp_path: Path, damage) -> None:
    ObjectCache(tmp_path).put("ab12", b"object")
    (path,) = entries(tmp_path)
    damage(path)
    assert ObjectCache(tmp_path).get("ab12") is None
    if damage is not place_folder:
        ObjectCache(tmp_path).put("ab12", b"object")
        assert ObjectCache(tmp_path).get("ab12") == b"object"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_another_users_file_is_a_miss(tmp_path: Path) -> None:
    ObjectCache(tmp_path).put("ab12", b"object")
    (path,) = entries(tmp_path)
    os.chown(path, 4321, 4321)
    assert ObjectCache(tmp_path).get("ab12") is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_not_used_and_said_once(
    tmp_path: Path, mode: int
) -> None:
    folder = tmp_path / "cache"
    ObjectCache(folder).put("ab12", b"object")
    folder.chmod(mode)
    cache = ObjectCache(folder)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert cache.get("ab12") is None
        assert cache.get("ab13") is None
        cache.put("ab14", b"new")
    (warning,) = said
    assert warning.category is IngotWarning
    assert re.search("chmod go-w .*INGOT_CACHE_DIR", str(warning.message))
    assert len(entries(folder)) == 1
    cache.sweep()
    assert len(entries(folder)) == 1


def test_every_folder_on_the_way_counts_and_links_too(tmp_path: Path) -> None:
    folder, link = tmp_path / "open" / "cache", tmp_path / "link"
    folder.mkdir(parents=True)
    link.symlink_to(folder)
    ObjectCache(link).put("ab12", b"object")
    assert ObjectCache(link).get("ab12") == b"object"
    folder.parent.chmod(0o777)
    for path in (folder, link):
        with pytest.warns(IngotWarning, match="others may write .*/open "):
            assert ObjectCache(path).get("ab12") is None
    folder.parent.chmod(0o1777)
    assert ObjectCache(link).get("ab12") == b"object"


def test_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ObjectCache(tmp_path / "a" / "b").put("ab12", b"object")
    finally:
        os.umask(before)
    assert ObjectCache(tmp_path / "a" / "b").get("ab12") == b"object"
    made = [path for path in tmp_path.rglob("*") if path.name != "swept"]
    assert len(made) == 5
    assert {path.stat().st_mode & 0o077 for path in made} == {0}


def test_a_sweep_touches_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    cache, other = ObjectCache(tmp_path / "cache", disk_bytes=0), tmp_path / "other"
    ObjectCache(other).put("cd01", bytes(100))
    (foreign,) = entries(other)
    shards = tmp_path / "cache" / "objects"
    for name in ("ab", "ab/folder.o", "photos"):
        (shards / name).mkdir(parents=True)
    (shards / "cd").symlink_to(foreign.parent)
    (shards / "ab" / "abcd.o").symlink_to(foreign)
    kept = [
        tmp_path / "cache" / "notes",
        *(shards / name for name in ("ab/thesis.tex", "ab/cd01.o", "ab/x.tmp", "photos/ab12.o")),
        foreign,
    ]
    for path in kept[:-1]:
        path.write_bytes(bytes(10))
    own = shards / "ab" / "ab12.o"
    own.write_bytes(bytes(10))
    cache.sweep()
    assert not own.exists()
    assert [path for path in kept if not path.exists()] == []


def test_a_sweep_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.put("ab12", b"object")
    new, old = (tmp_path / "objects" / "ab" / f"ingot-{name}.tmp" for name in ("new", "old"))
    new.write_bytes(b"half")
    old.write_bytes(b"half")
    long_ago = time.time() - 7200
    os.utime(old, (long_ago, long_ago))
    cache.sweep()
    assert new.exists()
    assert not old.exists()
    assert ObjectCache(tmp_path).get("ab12") == b"object"


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


def let_group_write(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o775 if path.is_dir() else 0o664)


def test_a_group_of_this_user_alone_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What umask 002 makes, where every user has a group.
    folder = tmp_path / "cache"
    ObjectCache(folder).put("ab12", b"object")
    let_group_write(folder)
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(trusted_files, "_is_private_group", lambda *ids: not asked.append(ids))
    assert ObjectCache(folder).get("ab12") == b"object"
    assert set(asked) == {(os.geteuid(), folder.stat().st_gid)}
    folder.chmod(0o777)
    with pytest.warns(IngotWarning, match="others may write"):
        assert ObjectCache(folder).get("ab12") is None


def test_an_access_list_may_name_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    ObjectCache(folder).put("ab12", b"object")
    let_group_write(folder)
    monkeypatch.setattr(trusted_files, "_is_private_group", lambda user, group: True)
    monkeypatch.setattr(os, "listxattr", lambda file: ["system.posix_acl_access"])
    with pytest.warns(IngotWarning, match="others may write"):
        assert ObjectCache(folder).get("ab12") is None


PASSWD = (("ann", 1000, 1000), ("bob", 1001, 1001), ("cy", 1002, 1001), ("dee", 1003, 1003))
GROUPS = {1000: ("ann", []), 1001: ("bob", []), 1003: ("dee", ["dee", "ann"]), 100: ("users", [])}


@pytest.mark.parametrize(
    ("user", "group", "wanted"),
    [
        (1000, 1000, True),
        (1000, 100, False),
        (1000, 7, False),
        (9, 1000, False),
        (1001, 1001, False),  # cy's group too
        (1003, 1003, False),  # ann is a member
        (1000, 1003, False),
    ],
)
def test_groups_of_one_user(
    user: int, group: int, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = {
        uid: SimpleNamespace(pw_name=name, pw_uid=uid, pw_gid=gid) for name, uid, gid in PASSWD
    }
    groups = {
        gid: SimpleNamespace(gr_name=name, gr_mem=members)
        for gid, (name, members) in GROUPS.items()
    }
    monkeypatch.setattr(pwd, "getpwuid", users.__getitem__)
    monkeypatch.setattr(pwd, "getpwall", lambda: [*users.values()])
    monkeypatch.setattr(grp, "getgrgid", groups.__getitem__)
    assert is_private_group.__wrapped__(user, group) is wanted
