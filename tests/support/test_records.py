# SPDX-License-Identifier: Apache-2.0
"""Records are what dataclasses are, though their methods are made when they are first called."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass, field, fields
from dataclasses import replace as dataclass_replace
from functools import cached_property
from itertools import count
from typing import Any

import pytest

from ingot.support.records import mutable, record, replace


@record
class Point:
    """A record with each kind of field."""

    x: int
    y: int = 1
    rows: list[int] = field(default_factory=list)
    note: str = field(default="", compare=False)
    secret: int = field(default=7, repr=False)
    total: int = field(init=False, default=3)
    label: str = field(kw_only=True, default="a")

    def __post_init__(self) -> None:
        self.rows.append(self.x)


@dataclass(slots=True)
class Plain:
    """The same as a dataclass."""

    x: int
    y: int = 1
    rows: list[int] = field(default_factory=list)
    note: str = field(default="", compare=False)
    secret: int = field(default=7, repr=False)
    total: int = field(init=False, default=3)
    label: str = field(kw_only=True, default="a")

    def __post_init__(self) -> None:
        self.rows.append(self.x)


@record
class Pair:
    """A record whose instances are hashable."""

    left: int
    right: tuple[int, ...] = ()


@record
class Triple(Pair):
    """A record that adds a field to another."""

    third: int = 0


@record(eq=False)
class Node:
    """A record that is only equal to itself."""

    value: int


@record(kw_only=True)
class Named:
    """A record of keywords."""

    name: str


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 2, [3], "n", 5), {"label": "b"}),
    ((2,), {"y": 0}),
]


def test_a_record_has_the_fields_and_texts_of_a_dataclass() -> None:
    for arguments, keywords in (
        ((1,), {}),
        ((1, 2, [3], "n", 5), {"label": "b"}),
        ((2,), {"y": 0}),
    ):
        mine, other = Point(*arguments, **keywords), Plain(*arguments, **keywords)
        assert repr(mine) == repr(other).replace("Plain", "Point")
        assert [getattr(mine, one.name) for one in fields(mine)] == [
            getattr(other, one.name) for one in fields(other)
        ]
    assert Point.__match_args__ == Plain.__match_args__


def test_lists_of_two_records_are_two_lists() -> None:
    assert Point(1).rows is not Point(1).rows


def test_fields_that_are_not_compared_do_not_count() -> None:
    assert Point(1, note="a") == Point(1, note="b") != Point(1, secret=8)


@pytest.mark.parametrize("arguments", [(), (1, 2, [], "", 1, 1)])
def test_wrong_arguments_are_type_errors_with_the_name_of_the_class(
    arguments: tuple[object, ...],
) -> None:
    with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
        Point(*arguments)  # type: ignore[arg-type]


def test_equality_and_hash_are_of_class_and_fields() -> None:
    assert Pair(1, (2,)) == Pair(1, (2,)) != Pair(1)
    assert len({Pair(1), Pair(1), Pair(2), Triple(1), Triple(1, third=1)}) == 4
    assert Pair(1) != Triple(1)
    assert Pair(1).__eq__(1) is NotImplemented


def test_a_record_derived_from_a_record_has_its_own_methods() -> None:
    assert repr(Triple(1, third=2)) == "Triple(left=1, right=(), third=2)"
    assert repr(Pair(1)) == "Pair(left=1, right=())"


def test_records_without_comparison_are_equal_to_themselves_alone() -> None:
    node = Node(1)
    assert node == node
    assert node != Node(1)
    assert len({node, Node(1)}) == 2


def test_keywords_are_demanded() -> None:
    assert Named(name="a").name == "a"
    with pytest.raises(TypeError):
        Named("a")  # type: ignore[misc]


def test_copies_with_changes() -> None:
    assert replace(Pair(1), right=(3,)) == dataclass_replace(Pair(1), right=(3,)) == Pair(1, (3,))


def test_records_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Triple(1, (2,), 3))) == Triple(1, (2,), 3)


def test_a_method_of_the_class_is_kept() -> None:
    @record
    class Own:
        x: int

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "own"

    assert (hash(Own(1)), repr(Own(1)), Own(1) == Own(1)) == (5, "own", True)


def test_a_method_is_made_once_and_then_the_class_s() -> None:
    @record
    class Fresh:
        x: int

    before = vars(Fresh)["__init__"]
    Fresh(1)
    assert vars(Fresh)["__init__"] is Fresh.__init__ is not before
    assert before.__get__(None, Fresh) is Fresh.__init__  # who found it before it was made
    again = Fresh(2)
    Fresh.__init__(again, 3)
    assert again.x == 3


def test_a_method_that_was_wrapped_stays_wrapped() -> None:
    calls = count()

    @record
    class Counted:
        x: int

    original = Counted.__init__

    def wrapped(self: Counted, x: int) -> None:
        next(calls)
        original(self, x)

    Counted.__init__ = wrapped  # type: ignore[method-assign]
    assert [Counted(1).x, Counted(2).x, next(calls)] == [1, 2, 2]


def test_a_record_caches_a_property() -> None:
    @record
    class Square:
        side: int

        @cached_property
        def area(self) -> list[int]:
            return [self.side**2]

    square = Square(3)
    assert square.area is square.area
    assert square == Square(3)
    assert replace(square, side=4).area == [16]
    assert pickle.loads(pickle.dumps(Pair(1))) == Pair(1)


@mutable
class Counter:
    """A class whose fields change."""

    number: int = 0
    seen: list[str] = field(default_factory=list)


@mutable(eq=False)
class Cell:
    """One that is only equal to itself."""

    value: int


def test_fields_of_a_mutable_class_change() -> None:
    counter = Counter()
    counter.number += 1
    counter.seen.append("a")
    assert counter == Counter(1, ["a"]) != Counter()
    assert repr(counter) == "Counter(number=1, seen=['a'])"
    assert [item.name for item in fields(counter)] == ["number", "seen"]
    with pytest.raises(AttributeError):
        counter.other = 1  # type: ignore[attr-defined]


def test_a_mutable_class_that_is_compared_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())
    cell = Cell(1)
    assert len({cell, Cell(1)}) == 2


@dataclass
class Base:
    """A dataclass of the standard library."""

    first: int
    second: int = field(default=2, repr=False)


@record
class Derived(Base):
    """A record derived from it."""

    third: int = 3


def test_a_record_may_extend_a_dataclass() -> None:
    assert repr(Derived(1, third=4)) == "Derived(first=1, third=4)"
    assert replace(Derived(1), second=5) == Derived(1, 5)
    assert [item.name for item in fields(Derived)] == ["first", "second", "third"]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("with_defaults", [False, True])
@pytest.mark.parametrize("with_last", [False, True])
def test_methods_are_those_of_a_dataclass(count: int, with_defaults: bool, with_last: bool) -> None:
    names = [f"field{number}" for number in range(count)]
    known = {name: number for number, name in enumerate(names) if number >= count // 2}
    defaults = known if with_defaults else {}
    seen: list[object] = []
    contents: dict[str, Any] = {"__annotations__": dict.fromkeys(names, "int"), **defaults}
    if with_last:
        contents["__post_init__"] = lambda self: seen.append(self)
    mine: Any = record(type("Made", (), dict(contents)))
    other: Any = dataclass(frozen=True)(type("Made", (), dict(contents)))
    wanted = inspect.signature(other.__init__).replace(return_annotation=inspect.Signature.empty)
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in wanted.parameters.values()]
    assert inspect.signature(mine.__init__) == wanted.replace(parameters=plain)
    values = range(100, 100 + count)
    one, two = mine(*values), mine(**dict(zip(names, values, strict=True)))
    assert [getattr(one, name) for name in names] == list(values)
    assert one == two
    assert hash(one) == hash(other(*values))
    assert (one != mine(*range(count))) == (count > 0)
    assert mine.__init__.__qualname__ == "Made.__init__"
    assert (one in seen) == with_last


def test_a_field_without_a_default_after_one_with_a_default_is_an_error() -> None:
    wrong: Any = record(type("Wrong", (), {"__annotations__": {"a": "int", "b": "int"}, "a": 1}))
    with pytest.raises(SyntaxError):
        wrong(1, 2)
