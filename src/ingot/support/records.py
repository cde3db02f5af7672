# SPDX-License-Identifier: Apache-2.0
"""`record` and `mutable`: dataclasses that are quick to declare, and to make instances of.

Objects for every instruction and every kernel of a program are made often. The constructor of
`@dataclass(frozen=True)` calls `object.__setattr__` for each field and takes ten times as long as
one that assigns. A record is frozen for the type checker, which checks all of `src/`, and a plain
dataclass at run time. Its methods and the table of its fields are made when they are first used,
which makes the import of the compiler a third shorter. `mutable` is the same for classes whose
fields are assigned.

Invariant: fields of a record are never assigned; its hash is that of its fields.

Example:
    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), hash(Point(1)) == hash(Point(1, 0))
    (Point(x=1, y=0), True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cached_property, lru_cache
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast, dataclass_transform, overload

_Class = TypeVar("_Class")
_Instance = TypeVar("_Instance")
_Function = Callable[..., Any]
_Decorator = Callable[[type[_Class]], type[_Class]]


def fresh(*, factory: Callable[[], object]) -> Any:
    """Return a field whose default is a new object for each instance, as `fresh(factory=dict)`."""
    return field(default_factory=factory)


@overload
def record(cls: type[_Class], /) -> type[_Class]: ...


@overload
def record(
    *, eq: bool = True, kw_only: bool = False, weakref_slot: bool = False
) -> _Decorator[_Class]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field, fresh))
def record(
    cls: type[_Class] | None = None,
    /,
    *,
    eq: bool = True,
    kw_only: bool = False,
    weakref_slot: bool = False,
) -> type[_Class] | _Decorator[_Class]:
    """Make `cls` a record: with slots, compared by fields.

    It has a `__dict__` too if it has cached properties, which are kept there.

    Args:
        cls: the class.
        eq: whether instances are compared by fields; else each is equal to itself alone.
        kw_only: as for `dataclass`.
        weakref_slot: as for `dataclass`.
    """
    compared = ("__eq__", "__hash__") if eq else ()
    more = ("__weakref__",) if weakref_slot else ()

    def make(cls: type[_Class]) -> type[_Class]:
        return _with_methods(cls, compared, more, kw_only)

    return make if cls is None else make(cls)


@overload
def mutable(cls: type[_Class], /) -> type[_Class]: ...


@overload
def mutable(*, eq: bool = True) -> _Decorator[_Class]: ...


@dataclass_transform(field_specifiers=(field, fresh))
def mutable(
    cls: type[_Class] | None = None, /, *, eq: bool = True
) -> type[_Class] | _Decorator[_Class]:
    """Make `cls` a class as `dataclass(slots=True)` does, whose methods are made when first used.

    Args:
        cls: the class.
        eq: whether instances are compared by fields, and have no hash; else each is equal to
            itself alone.
    """
    compared = ("__eq__",) if eq else ()

    def make(cls: type[_Class]) -> type[_Class]:
        return _with_methods(cls, compared, (), kw_only=False)

    return make if cls is None else make(cls)


def _with_methods(
    cls: type[_Class], compared: tuple[str, ...], slots: tuple[str, ...], kw_only: bool
) -> type[_Class]:
    """Return the class once more, with slots, methods and what `dataclasses` looks for."""
    made = _with_slots(cls, slots)
    own = vars(cls)
    for name in ("__init__", "__repr__", *compared):
        if name not in own:
            setattr(made, name, _MadeWhenUsed(made, name))
    if "__eq__" in compared and _HASH not in (*compared, *own):
        setattr(made, _HASH, None)
    setattr(made, _OWN_FIELDS, (cls, kw_only))
    setattr(made, _FIELDS, _FieldsWhenUsed(made))
    setattr(made, _PARAMETERS, _PLAIN_PARAMETERS)
    setattr(made, _POSITIONAL, _PositionalWhenUsed())
    return made


def _with_slots(cls: type[_Class], more: tuple[str, ...]) -> type[_Class]:
    """Return the class once more, with a slot for each field that no base has."""
    inherited = {name for base in cls.__mro__[1:-1] for name in vars(base).get("__slots__", ())}
    names = [name for name, text in cls.__annotations__.items() if not _is_of_class(text)]
    if any(isinstance(value, cached_property) for value in vars(cls).values()):
        more = (*more, "__dict__")
    left_out = {"__dict__", "__weakref__", *names}
    contents = {name: value for name, value in vars(cls).items() if name not in left_out}
    contents["__slots__"] = tuple([name for name in (*names, *more) if name not in inherited])
    made: Any = type(cls)(cls.__name__, cls.__bases__, contents)
    made.__qualname__ = cls.__qualname__
    return made


def _is_of_class(annotation: object) -> bool:
    return str(annotation).removeprefix("typing.").startswith("ClassVar")


_OWN_FIELDS = "__record_fields__"
"""Where a record keeps its own fields; before they are made, the class that declares them, and
whether they are keywords."""

_FIELDS, _PARAMETERS = "__dataclass_fields__", "__dataclass_params__"
"""Where `dataclasses` keeps what `fields`, `is_dataclass` and derived dataclasses ask for."""

_POSITIONAL, _HASH = "__match_args__", "__hash__"

_KIND_OF_FIELD = "_field_type"
_LAST = "__post_init__"

_PLAIN = dataclass(type("Plain", (), {"__annotations__": {"field": int}}))
_PLAIN_PARAMETERS = getattr(_PLAIN, _PARAMETERS)
_PLAIN_FIELD = getattr(getattr(_PLAIN, _FIELDS)["field"], _KIND_OF_FIELD)


def _fields(cls: type) -> list[Field[Any]]:
    """Return the fields of a record, those of its bases first."""
    found: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__):
        if _OWN_FIELDS in vars(base):
            found |= {item.name: item for item in _own_fields(base)}
        else:
            found |= vars(base).get(_FIELDS, {})
    return list(found.values())


def _own_fields(made: type) -> tuple[Field[Any], ...]:
    """Return the fields that a record declares itself, which are made when they are asked for."""
    own = vars(made)[_OWN_FIELDS]
    if not isinstance(own, _Fields):
        declaration = cast("tuple[type, bool]", own)
        own = _Fields(_declared_fields(*declaration))
        setattr(made, _OWN_FIELDS, own)
    return own


class _Fields(tuple[Field[Any], ...]):
    """The fields that a record declares, made."""

    __slots__ = ()


def _declared_fields(declared: type, kw_only: bool) -> Iterator[Field[Any]]:
    """Yield the fields that a class declares itself, as `dataclasses` would make them."""
    for name, text in declared.__annotations__.items():
        if not _is_of_class(text):
            given: Any = vars(declared).get(name, MISSING)
            is_field = isinstance(given, Field)
            item: Field[Any] = cast("Any", given) if is_field else field(default=given)
            item.name, item.type = name, text
            item.kw_only = kw_only if item.kw_only is MISSING else item.kw_only
            setattr(item, _KIND_OF_FIELD, _PLAIN_FIELD)
            yield item


class _FieldsWhenUsed:
    """The fields of a record by name, as `dataclasses` has them, found when they are asked for."""

    __slots__ = ("_made",)

    def __init__(self, made: type) -> None:
        self._made = made

    def __get__(self, instance: object, owner: type) -> dict[str, Field[Any]]:
        found: dict[str, Field[Any]] = {}
        for base in reversed(self._made.__mro__[1:]):
            found |= getattr(base, _FIELDS, {})
        for item in _own_fields(self._made):
            found[item.name] = item
        setattr(self._made, _FIELDS, found)
        return found


class _PositionalWhenUsed:
    """The names of the arguments without keywords, for `match`."""

    __slots__ = ()

    def __get__(self, instance: object, owner: type) -> tuple[str, ...]:
        return tuple([item.name for item in fields(owner) if item.init and not item.kw_only])


class _MadeWhenUsed:
    """A method of a class that is made when it is first looked up, and takes this one's place.

    Of the 450 records that a TensorFlow program imports it uses a third.
    """

    __slots__ = ("_cls", "_name")

    def __init__(self, cls: type, name: str) -> None:
        self._cls = cls
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        found = vars(self._cls)[self._name]
        if found is self:
            found = _MAKERS[self._name](self._cls)
            setattr(self._cls, self._name, found)
        return found.__get__(instance, owner)


def _constructor(cls: type) -> _Function:
    """Return `__init__`: it takes and assigns the fields."""
    items = _fields(cls)
    is_last = hasattr(cls, _LAST)
    if all(item.init and not item.kw_only and item.default_factory is MISSING for item in items):
        names = tuple([item.name for item in items])
        defaults = [item.default for item in items if item.default is not MISSING]
        # A field without a default after one with a default is an error of the general text.
        if all(item.default is not MISSING for item in items[len(items) - len(defaults) :]):
            made = _of_template(cls, _assigning(len(names), is_last), names)
            made.__defaults__ = tuple(defaults)
            return made
    return _general_constructor(cls, items, is_last)


def _general_constructor(cls: type, items: list[Field[Any]], is_last: bool) -> _Function:
    """Return `__init__` of fields some of which have factories, are keywords, or no arguments."""
    names: dict[str, Any] = {"MISSING": MISSING}
    positional, keywords, body = list[str](), list[str](), list[str]()
    for item in items:
        has_default, has_factory = item.default is not MISSING, item.default_factory is not MISSING
        default, value = f"default_{item.name}", item.name
        if has_factory:
            names[default] = item.default_factory
            value = f"{default}()"
            if item.init:
                value = f"{value} if {item.name} is MISSING else {item.name}"
        elif has_default:
            names[default] = item.default
            value = item.name if item.init else default
        if item.init:
            suffix = "=MISSING" if has_factory else f"={default}" if has_default else ""
            (keywords if item.kw_only else positional).append(item.name + suffix)
        if item.init or has_default or has_factory:
            body.append(f"self.{item.name} = {value}")
    if is_last:
        body.append(f"self.{_LAST}()")
    parameters = ", ".join(["self", *positional, *(["*", *keywords] if keywords else ())])
    function = _compiled("__init__", parameters, body or ["pass"], names)
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    function.__module__ = cls.__module__
    return function


def _equality(cls: type) -> _Function:
    """Return `__eq__`: it compares the fields."""
    compared = tuple([item.name for item in _fields(cls) if item.compare])
    return _of_template(cls, _comparing(len(compared)), compared)


def _hashing(cls: type) -> _Function:
    """Return `__hash__`: that of the fields which are compared."""
    hashed = tuple(
        [item.name for item in _fields(cls) if (item.compare if item.hash is None else item.hash)]
    )
    return _of_template(cls, _hashing_of(len(hashed)), hashed)


def _representation(cls: type) -> _Function:
    """Return `__repr__`: the class's name with the fields."""
    shown = [item.name for item in _fields(cls) if item.repr]

    @recursive_repr()
    def text(self: Any) -> str:
        values = [f"{name}={getattr(self, name)!r}" for name in shown]
        return f"{type(self).__qualname__}({', '.join(values)})"

    return text


_MAKERS: Mapping[str, Callable[[type], _Function]] = {
    "__init__": _constructor,
    "__repr__": _representation,
    "__eq__": _equality,
    "__hash__": _hashing,
}


@lru_cache(maxsize=1 << 7)
def _assigning(count: int, is_last: bool) -> _Function:
    """Return a constructor of this many fields, which calls `__post_init__` if `is_last`."""
    fields = _placeholders(count)
    body = [f"self.{name} = {name}" for name in fields]
    last = [f"self.{_LAST}()"] if is_last else []
    return _compiled("__init__", ", ".join(["self", *fields]), [*body, *last] or ["pass"], {})


@lru_cache(maxsize=1 << 7)
def _comparing(count: int) -> _Function:
    """Return a comparison of this many fields."""
    sides = [_tuple_text(side, count) for side in ("self", "other")]
    body = ["if other.__class__ is self.__class__:", f"    return {sides[0]} == {sides[1]}"]
    return _compiled("__eq__", "self, other", [*body, "return NotImplemented"], {})


@lru_cache(maxsize=1 << 7)
def _hashing_of(count: int) -> _Function:
    """Return the hash of this many fields."""
    return _compiled("__hash__", "self", [f"return hash({_tuple_text('self', count)})"], {})


def _placeholders(count: int) -> list[str]:
    return [f"_{number}_field" for number in range(count)]


def _tuple_text(side: str, count: int) -> str:
    return "(" + "".join([f"{side}.{name}, " for name in _placeholders(count)]) + ")"


def _of_template(cls: type, template: _Function, fields: tuple[str, ...]) -> _Function:
    """Return a function of a class: the code of a template with the names of these fields.

    It takes a tenth of the time of compiling a text for each class.
    """
    code: CodeType = template.__code__
    known = dict(zip(_placeholders(len(fields)), fields, strict=True))
    code = code.replace(
        co_names=tuple([known.get(name, name) for name in code.co_names]),
        co_varnames=tuple([known.get(name, name) for name in code.co_varnames]),
        co_qualname=f"{cls.__qualname__}.{code.co_name}",
    )
    function = FunctionType(code, template.__globals__, code.co_name)
    function.__module__ = cls.__module__
    return function


def _compiled(name: str, parameters: str, body: list[str], names: dict[str, Any]) -> _Function:
    """Return the function of a text, as `dataclasses` makes it."""
    lines = "".join([f"\n    {line}" for line in body])
    exec(f"def {name}({parameters}):{lines}", names)
    return names.pop(name)


def replace(instance: _Instance, **changes: Any) -> _Instance:
    """Return a copy of a dataclass instance with some fields changed.

    It takes a third of the time of `dataclasses.replace`, which looks up the fields at each call.
    """
    values = {name: getattr(instance, name) for name in _arguments(type(instance))}
    values.update(changes)
    return type(instance)(**values)


@lru_cache(maxsize=1 << 10)
def _arguments(cls: Any) -> tuple[str, ...]:
    """Return the names of the fields that the constructor takes."""
    return tuple([item.name for item in _fields(cls) if item.init])
