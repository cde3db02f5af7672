# SPDX-License-Identifier: Apache-2.0
"""PyTorch: `torch.compile(model, backend="ingot")`.

PyTorch traces the program (TorchDynamo), differentiates it and makes it functional (AOTAutograd).
The backend gets a graph of ATen ops over tensors of known or symbolic sizes.

The flow of a call of torch.compile: `backend` takes its graphs, in which PyTorch has applied
`decompositions`, and runs `passes` over them. `partitioning` says which nodes are compiled and cuts
the graph there into pieces, `lowering` makes HLO of a piece, `launches.launch` a compiled program.
The Python function of `launches.wrapper` runs all steps of a call; `launches.call_code` is its way
into machine code.

The packages and files, importers first:

* `coverage`: the coverage of PyTorch's core ops, as a page: docs/torch_ops.md;
* `backend`: the backend: from the graphs of one call of torch.compile to the function that runs
  them;
* `exported`: programs of torch.export as modules: `module_of(exported)`;
* `launches`: calls of compiled pieces: from PyTorch's tensors to PyTorch's tensors;
* `partitioning`: which nodes are compiled, which stay with PyTorch, and the cut between them;
* `passes`: passes over PyTorch's graphs, before they are cut into pieces and lowered;
* `decompositions`: definitions of ATen ops by simpler ones, applied while PyTorch traces;
* `lowering`: ATen graphs to HLO, one small rule per op;
* `fx`: PyTorch's graphs as Ingot reads them: nodes, sizes, element types, layouts, locations;
* `graphs`: the graphs that were compiled in this process, for inspection;
* `options`: the user's choices for torch.compile: its `mode=` and `options=`, as an `Options`.

Invariant: results have the values, sizes, strides and element types that PyTorch's own kernels
give, and random numbers come from PyTorch's generator in its order.
"""
