"""Emitters: kernel IR to LLVM IR. An emitter spells out what the schedule says and never chooses."""
