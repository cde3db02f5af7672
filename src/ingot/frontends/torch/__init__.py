# SPDX-License-Identifier: Apache-2.0
"""PyTorch: `torch.compile(model, backend="ingot")`.

PyTorch traces the program (TorchDynamo), differentiates it and makes it functional (AOTAutograd).
The backend gets a graph of ATen ops over tensors of known or symbolic sizes.

    backend      the graphs of one call of torch.compile -> callables
    decompose    the ops that PyTorch decomposes before; foreach: ops on lists of tensors
    placement    which nodes are compiled, and which PyTorch's own kernels run
    partition    the graph cut at those nodes: pieces, each one program
    lowering/    a piece -> HLO: one small rule per op, in tables by family
    launch       HLO -> a compiled program and the layouts of its tensors in memory
    wrapper      the Python function that runs all steps; call_code: its way into machine code

Invariant: results have the values, sizes, strides and element types that PyTorch's own kernels
give, and random numbers come from PyTorch's generator in its order.
"""
