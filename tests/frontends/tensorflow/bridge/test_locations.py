# SPDX-License-Identifier: Apache-2.0
"""Which frame of a stack is the user's line."""

import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

import ingot
from ingot.frontends.tensorflow.api.locations import Locations, library_roots

KERAS = str(Path(sysconfig.get_path("purelib"), "keras/layers/core/dense.py"))
COMMAND = str(Path(sysconfig.get_path("scripts"), "ingot"))
PACKAGE = str(Path(ingot.__file__).parent / "__main__.py")


class Frame(NamedTuple):
    """As TensorFlow's frames; they are hashable."""

    filename: str
    lineno: int


def location(*files):
    """Return the file of the location of a node whose stack has these files, outermost first."""
    frames = tuple(Frame(file, 8) for file in files)
    node = SimpleNamespace(traceback=frames)
    graph = SimpleNamespace(get_operation_by_name=lambda _: node)
    found = Locations().of(graph, "node")
    return found and found.file


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ((COMMAND, "/home/me/train.py", "/home/me/model.py", KERAS), "/home/me/model.py"),
        (("/home/me/train.py", KERAS), "/home/me/train.py"),
        ((KERAS, KERAS), KERAS),
        ((COMMAND, KERAS), None),
        ((PACKAGE, KERAS), None),
        ((), None),
    ],
)
def test_the_users_frame_is_the_innermost_outside_of_packages(files, found):
    assert location(*files) == found


def test_packages_behind_a_link_are_no_lines_of_the_user(tmp_path: Path) -> None:
    folder, link = tmp_path / "environment", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    assert library_roots(link) == (str(link), str(folder.resolve()))
