# SPDX-License-Identifier: Apache-2.0
"""Native functions linked into this process, to be compared with their plain Python."""

import ctypes

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I1, I8, I32, I64, VOID
from ingot.native.functions import llvm_signature, symbol_of
from ingot.native.module import Translation
from ingot.native.pointers import Pointer

C_TYPES = {I1: ctypes.c_bool, I8: ctypes.c_int8, I32: ctypes.c_int32, I64: ctypes.c_int64}
C_TYPES[VOID] = None


def module_of(*functions):
    """Return a module of native functions."""
    module = ModuleBuilder("native_test")
    Translation(module).add(*functions)
    return module


def linked(*functions, imports=None):
    """Return the library of native functions, and a caller `call(function, *args)`."""
    data = compile_object(module_of(*functions).text(), TargetSpec.host())
    library = link_object([data], imports or {})

    def call(function, *args):
        result, params = llvm_signature(function)
        types = [C_TYPES.get(each, ctypes.c_void_p) for each in (result, *params)]
        bound = library.function(symbol_of(function), *types)
        return bound(*[each.address if isinstance(each, Pointer) else each for each in args])

    return call
