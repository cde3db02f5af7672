"""The kernel IR: iteration spaces, index maps, expressions; how a fusion becomes loops.

`expr` scalar expressions, `ir` kernels, `index_math` index arithmetic, `pull` HLO to expressions,
`loops` fusions to loop kernels, `contraction` dots to contraction kernels, `schedule` tiles, vectors
and threads. The same IR goes to CPU vectors and GPU threads.
"""
