# SPDX-License-Identifier: Apache-2.0
"""Which function of a package may call which: from names, annotations and simple inference.

A mention counts as a call, as what is mentioned may be passed on and called. The type of a receiver
comes from annotations of parameters, results and fields, and from assignments; a method of an
unknown receiver is any method of that name, if few have it and no built-in type does. A function
that a decorator registers is called by whoever mentions the table. `yield f(x)` is no call: what
drives the generator calls it (`ingot.support.trampoline`).

Not seen: operators, and calls of what a table holds that is put together at run time.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from tools.source_index import FUNCTIONS, Class, Function, Index, Variable

_BUILT_IN = {
    name
    for built_in in (list, dict, set, str, tuple, int, frozenset, bytes, float, bytearray)
    for name in dir(built_in)
}
_SEQUENCES = {
    "list", "set", "frozenset", "tuple", "Iterable", "Iterator", "Sequence", "Collection", "deque",
    "sorted", "reversed", "iter", "Generator",
}  # fmt: skip
_MAPPINGS = {"dict", "Mapping", "defaultdict", "MutableMapping"}
_GENERIC = _SEQUENCES | _MAPPINGS
_IMPLICIT = {"str": "__str__", "repr": "__repr__", "hash": "__hash__", "len": "__len__"}
_FEW = 2
"""Methods of one name at most that a call on an unknown receiver stands for: more say nothing."""

_ELEMENTS = {"next", "max", "min"}

# A type: the classes that a value may be of; `Many` of what it holds; None where it is not known.
Type = frozenset


class _Many:
    """What holds values of a type."""

    def __init__(self, inner: Type | None) -> None:
        self.inner = inner


class _Scope:
    """The names of one function, and the types of its expressions."""

    def __init__(self, index: Index, function: Function) -> None:
        self.index, self.function = index, function
        self.nodes = list(_own_nodes(function.node))
        self._bound: dict[str, list[tuple[ast.expr | None, bool]]] = defaultdict(list)
        self._types: dict[str, Type | None] = {}
        given = function.node.args
        for one in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            self._types[one.arg] = self.annotated(one.annotation)
        for one in filter(None, (given.vararg, given.kwarg)):
            self._types[one.arg] = Type([_Many(self.annotated(one.annotation))])
        if function.owner is not None and given.args:
            self._types[given.args[0].arg] = Type([function.owner])
        for node in self.nodes:
            self._bind(node)

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self._types[node.target.id] = self.annotated(node.annotation)
        elif isinstance(node, ast.Assign | ast.NamedExpr):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._bind_target(target, node.value, False)
        elif isinstance(node, ast.For | ast.comprehension):
            self._bind_target(node.target, node.iter, True)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind_target(node.optional_vars, node.context_expr, False)
        elif isinstance(node, ast.Lambda):
            for one in node.args.args:
                self._types.setdefault(one.arg, None)

    def _bind_target(self, target: ast.expr, value: ast.expr | None, is_element: bool) -> None:
        if isinstance(target, ast.Name):
            self._bound[target.id].append((value, is_element))
        elif isinstance(target, ast.Tuple | ast.List):
            for number, one in enumerate(target.elts):
                one = one.value if isinstance(one, ast.Starred) else one
                self._bind_target(one, *_part(value, number, is_element))

    # ---- names

    def local(self, name: str) -> tuple[bool, Type | None]:
        """Return whether a name is a variable of this function, and its type."""
        if name in self._types:
            return True, self._types[name]
        if name not in self._bound:
            return False, None
        self._types[name] = None
        found: Type | None = Type()
        for value, is_element in self._bound[name]:
            one = None if value is None else self.type(value)
            one = _inner(one) if is_element else one
            found = None if one is None or found is None else found | one
        self._types[name] = found
        return True, found

    def find(self, name: str) -> object:
        """Return the function, class or variable of a module that a name is, None if local."""
        function: Function | None = self.function
        while function is not None:
            if name in function.inner:
                return function.inner[name]
            function = function.outer
        return self.index.find(self.function.module, name)

    # ---- types

    def annotated(self, node: ast.expr | None, depth: int = 0) -> Type | None:
        """Return the type that an annotation says."""
        if node is None or depth > 8:
            return None
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, str):
                return Type()
            return self.annotated(ast.parse(node.value, mode="eval").body, depth + 1)
        if isinstance(node, ast.BinOp):
            sides = [self.annotated(one, depth + 1) for one in (node.left, node.right)]
            return None if None in sides else sides[0] | sides[1]
        if isinstance(node, ast.Subscript):
            return self._generic(node, depth)
        return self._named(node, depth)

    def _named(self, node: ast.expr, depth: int) -> Type | None:
        name = node.id if isinstance(node, ast.Name) else ""
        found = self.index.find(self.function.module, name)
        if isinstance(found, Class):
            return Type([found])
        if isinstance(found, Variable):
            return self.annotated(found.value, depth + 1)
        return None if name == "Any" else Type()

    def _generic(self, node: ast.Subscript, depth: int) -> Type | None:
        name = ast.unparse(node.value)
        given = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name in _MAPPINGS or name in _SEQUENCES:
            held = given[-1:] if name in _MAPPINGS else given
            inner = [self.annotated(one, depth + 1) for one in held]
            return Type([_Many(None if None in inner else Type().union(*inner))])
        return self.annotated(node.value, depth + 1)

    def type(self, node: ast.expr) -> Type | None:
        """Return the type of an expression; None if it is not known."""
        rule = getattr(self, f"_{type(node).__name__.lower()}", None)
        return Type() if rule is None else rule(node)

    def _name(self, node: ast.Name) -> Type | None:
        is_local, found = self.local(node.id)
        if is_local:
            return found
        entity = self.find(node.id)
        if isinstance(entity, Variable):
            return self.annotated(entity.annotation)
        return Type() if entity is None else Type([entity])

    def _attribute(self, node: ast.Attribute) -> Type | None:
        receiver = self.type(node.value)
        found: Type | None = Type()
        for one in receiver or ():
            part = self._field(one, node.attr) if isinstance(one, Class) else Type()
            if isinstance(one, str):
                part = Type(filter(None, [self.index.find(one, node.attr)]))
            found = None if part is None or found is None else found | part
        return None if receiver is None else found

    def _field(self, owner: Class, name: str) -> Type | None:
        for one in (*owner.above(), *owner.below()):
            if name in one.methods:
                method = one.methods[name]
                return self._result(method) if method.is_property else Type([method])
            if name in one.fields:
                method, annotation, value = one.fields[name]
                scope = self if method is None else _scope(self.index, method)
                if annotation is not None:
                    return _in_module(self.index, one.module).annotated(annotation)
                is_parameter = isinstance(value, ast.Name | ast.Call)
                return scope.type(value) if is_parameter else None
        return None

    def _result(self, function: Function) -> Type | None:
        return _scope(self.index, function).annotated(function.node.returns)

    def _call(self, node: ast.Call) -> Type | None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name and self.find(name) is None and node.args:
            first = self.type(node.args[0])
            if name in _SEQUENCES:
                return Type([_Many(_inner(first))])
            return _inner(first) if name in _ELEMENTS else None if name == "zip" else Type()
        called = self.type(node.func)
        found: Type | None = Type()
        for one in called or ():
            part = Type([one]) if isinstance(one, Class) else Type()
            part = self._result(one) if isinstance(one, Function) else part
            found = None if part is None or found is None else found | part
        return None if called is None else found

    def _subscript(self, node: ast.Subscript) -> Type | None:
        whole = self.type(node.value)
        return whole if isinstance(node.slice, ast.Slice) else _inner(whole)

    def _ifexp(self, node: ast.IfExp) -> Type | None:
        sides = [self.type(node.body), self.type(node.orelse)]
        return None if None in sides else sides[0] | sides[1]

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> Type | None:
        return Type([_Many(self.type(node.elt))])

    _generatorexp = _setcomp = _listcomp

    def _list(self, node: ast.List | ast.Tuple) -> Type | None:
        parts = [_inner(self.type(one.value)) if isinstance(one, ast.Starred) else self.type(one)
                 for one in node.elts]  # fmt: skip
        return Type([_Many(None if None in parts else Type().union(*parts))])

    _tuple = _set = _list

    def _yield(self, node: ast.Yield) -> Type | None:
        return None


def _part(value: ast.expr | None, number: int, is_element: bool) -> tuple[ast.expr | None, bool]:
    """Return what one of several names is bound to: the value, or elements of it."""
    if isinstance(value, ast.Tuple) and not is_element and number < len(value.elts):
        return value.elts[number], False
    if isinstance(value, ast.Call) and is_element and value.args:
        called = ast.unparse(value.func)
        if called == "enumerate":
            return (value.args[0], True) if number == 1 else (ast.Constant(0), False)
        if called == "zip" and number < len(value.args):
            return value.args[number], True
    return None, is_element


def _inner(found: Type | None) -> Type | None:
    if found is None:
        return None
    held = [one.inner for one in found if isinstance(one, _Many)]
    return None if None in held else Type().union(*held)


_SCOPES: dict[Function, _Scope] = {}


def _scope(index: Index, function: Function) -> _Scope:
    if function not in _SCOPES:
        _SCOPES[function] = _Scope(index, function)
    return _SCOPES[function]


def _in_module(index: Index, module: str) -> _Scope:
    nothing = ast.parse("def nothing(): ...").body[0]
    return _Scope(index, Function("", nothing, module, None, None))


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function but for those of functions and classes in it."""
    stack: list[ast.AST] = [*function.body, *function.args.defaults]
    while stack:
        node = stack.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        yield node
        held = list(ast.iter_child_nodes(node))
        # Types are named, not called.
        if isinstance(node, ast.AnnAssign):
            held.remove(node.annotation)
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in _GENERIC:
            held.remove(node.slice)
        stack.extend(held)


class CallGraph:
    """The calls of a package: `edges` from each function's name to those that it may call."""

    def __init__(self, index: Index) -> None:
        """Look at every function of `index`."""
        self._index = index
        self._registered = self._registrations()
        self.edges = {
            name: set(self._calls(function)) & index.functions.keys()
            for name, function in index.functions.items()
        }

    def _registrations(self) -> dict[Variable, set[str]]:
        """Return the functions that decorators put into a table of a module."""
        found: dict[Variable, set[str]] = defaultdict(set)
        for function in self._index.functions.values():
            for decorator in function.node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                name = called.id if isinstance(called, ast.Name) else ""
                made_by = self._index.find(function.module, name)
                for node in ast.walk(made_by.node) if isinstance(made_by, Function) else ():
                    table = isinstance(node, ast.Name) and self._index.find(made_by.module, node.id)
                    if isinstance(table, Variable):
                        found[table].add(function.name)
        return found

    def _calls(self, function: Function) -> Iterator[str]:
        scope = _scope(self._index, function)
        driven = [node.value for node in scope.nodes if isinstance(node, ast.Yield)]
        left_out = {id(one.func) for one in driven if isinstance(one, ast.Call)}
        called = {id(node.func) for node in scope.nodes if isinstance(node, ast.Call)}
        for node in scope.nodes:
            if id(node) in left_out:
                continue
            if isinstance(node, ast.Name) and not scope.local(node.id)[0]:
                yield from self._mentioned(scope.find(node.id))
            elif isinstance(node, ast.Attribute):
                yield from self._attribute(scope, node, id(node) in called)
            elif isinstance(node, ast.FormattedValue):
                yield from self._methods(scope.type(node.value), "__str__")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                method = _IMPLICIT.get(node.func.id, "")
                yield from self._methods(scope.type(node.args[0]), method)

    def _mentioned(self, entity: object) -> Iterator[str]:
        if isinstance(entity, Function):
            yield entity.name
        elif isinstance(entity, Class):
            for name in ("__init__", "__post_init__", "__new__"):
                yield from self._methods(Type([entity]), name)
        elif isinstance(entity, Variable):
            yield from self._registered.get(entity, ())
            for node in ast.walk(entity.value) if entity.value is not None else ():
                named = isinstance(node, ast.Name) and self._index.find(entity.module, node.id)
                if isinstance(named, Function):
                    yield named.name

    def _attribute(self, scope: _Scope, node: ast.Attribute, is_called: bool) -> Iterator[str]:
        receiver = scope.type(node.value)
        if isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()":
            for base in scope.function.owner.bases if scope.function.owner else ():
                method = next((k.methods[node.attr] for k in base.above()
                               if node.attr in k.methods), None)  # fmt: skip
                yield from [] if method is None else [method.name]
        elif receiver is None:
            named = self._index.methods[node.attr]
            if is_called and node.attr not in _BUILT_IN and len(named) <= _FEW:
                yield from named
        else:
            yield from self._methods(receiver, node.attr)
            for module in receiver:
                if isinstance(module, str):
                    yield from self._mentioned(self._index.find(module, node.attr))

    @staticmethod
    def _methods(receiver: Type | None, name: str) -> Iterator[str]:
        """Yield the methods that a call of `name` may reach: the class's own, and overriding."""
        for one in receiver or ():
            if isinstance(one, Class):
                above = [k.methods[name].name for k in one.above() if name in k.methods]
                yield from above[:1]
                yield from [k.methods[name].name for k in one.below() if name in k.methods]
