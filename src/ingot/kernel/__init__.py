"""The kernel IR: iteration spaces, index maps, expressions; how a fusion becomes loops.

`expr` scalar expressions, `ir` kernels, `index_math` index arithmetic, `pull` HLO to expressions
(`puller` the walk, `place` where values are wanted, `*_rules` what each opcode does), `loops` and
`update` fusions to loop kernels, `contraction` dots to contraction kernels, `schedule` tiles,
vectors and threads. The same IR goes to CPU vectors and GPU threads.
"""
