# SPDX-License-Identifier: Apache-2.0
"""The CPU compiler: a module in, an artifact out.

Passes, then kernels, then the host program. What each stage made stays at hand in `CpuProgram` for
`Executable.as_text`.
"""

from __future__ import annotations

from ingot.artifact.abi import ProgramInfo
from ingot.artifact.artifact import Artifact
from ingot.cpu.host import CpuHostProgram
from ingot.cpu.inlining import loop_computations
from ingot.cpu.kernels import KernelSet
from ingot.cpu.pipeline import PIPELINE
from ingot.cpu.register_loops import emit_register_loops
from ingot.cpu.steps import host_steps
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.runner import run_passes
from ingot.host.placed import PlacedModule
from ingot.host.program import constant_block, emit_functions
from ingot.host.sites import scheduled_fusions
from ingot.host.sizes import plan_sizes, program_info
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.optimization import HOST_PROGRAM, Optimization
from ingot.llvm.target import TargetSpec
from ingot.passes.buffers.assignment import assign_buffers
from ingot.passes.buffers.buffer_table import BufferAssignment
from ingot.passes.buffers.verify import verify_assignment
from ingot.semantics.foreign_calls import call_sites
from ingot.support.records import record, replace
from ingot.support.timing import PhaseTimer


@record
class CpuProgram:
    """An artifact with what the stages on the way made.

    Attributes:
        artifact: the compiled program.
        module: the module after all passes, scheduled.
        kernels: kernels with kernel IR and LLVM IR.
        assignment: where values live.
        host_text: LLVM IR of the host program; empty if that is steps.
    """

    artifact: Artifact
    module: Module
    kernels: KernelSet
    assignment: BufferAssignment
    host_text: str

    def llvm_modules(self) -> list[tuple[str, Optimization]]:
        """Return the modules of the kernels, then the host program's: LLVM IR, what LLVM does."""
        host = [(self.host_text, HOST_PROGRAM)] if self.host_text else []
        return [*self.kernels.llvm_modules(), *host]


def compile_module(
    module: Module, context: PassContext, target: TargetSpec, timer: PhaseTimer
) -> CpuProgram:
    """Compile `module`, which is consumed (rewritten in place).

    Args:
        module: the program.
        context: options of the passes; its floating-point licence is that of the code, too.
        target: the machine.
        timer: gets the seconds of each phase.

    Raises:
        UnsupportedError: an op or element type that the CPU backend cannot run.
        ResourceError: INGOT0403 computations that cannot be called have too many instructions.
    """
    contracts = context.fp >= Fp.CONTRACT
    if target.contracts != contracts:
        target = replace(target, contracts=contracts)
    with timer.phase("passes"):
        run_passes(PIPELINE, module, context)
    with timer.phase("kernels"):
        kernels = emit_kernels(module, target, context)
    with timer.phase("buffers"):
        assignment = assign_buffers(module, scratch_bytes(kernels))
        if context.debug:
            verify_assignment(module, module.schedule, assignment)
    program = _link_up(module, kernels, assignment, target, timer)
    module.drop_analyses()
    return program


def emit_kernels(module: Module, target: TargetSpec, context: PassContext) -> KernelSet:
    """Emit the kernel of every scheduled fusion and begin to compile them."""
    kernels = KernelSet(target, context)
    repeated = loop_computations(module)
    for fusion in scheduled_fusions(module):
        kernels.add(fusion, in_loop=fusion.computation in repeated)
    kernels.emit()
    return kernels


def _link_up(
    module: Module,
    kernels: KernelSet,
    assignment: BufferAssignment,
    target: TargetSpec,
    timer: PhaseTimer,
) -> CpuProgram:
    """Make the host program while the kernels compile, then the artifact of both."""
    plan = plan_sizes(module)
    info = program_info(module, plan, assignment)
    placed = PlacedModule(module, assignment, plan, info)
    with timer.phase("host program"):
        emit_register_loops(placed, kernels)
        text, host = "", host_steps(placed, kernels)
        if host is None:
            text, info = host_code(placed, kernels)
            host = compile_object(text, target, HOST_PROGRAM)
    with timer.phase("machine code"):
        kernels.finish()
    artifact = Artifact(
        info,
        f"{target.triple} {target.cpu}",
        host,
        kernels.objects(),
        constant_block(assignment),
        assignment.arena_bytes,
        module.analysis(call_sites),
        has_loop=_has_loop(module),
        parts=kernels.parts(),
        tables=kernels.tables(),
    )
    return CpuProgram(artifact, module, kernels, assignment, text)


def _has_loop(module: Module) -> bool:
    """Whether a program may repeat work: it has loops or calls."""
    repeats = ("while", "call")
    return any(i.opcode in repeats for order in module.schedule.values() for i in order)


def host_code(placed: PlacedModule, kernels: KernelSet) -> tuple[str, ProgramInfo]:
    """Return LLVM IR of the host program, and the ABI description with the limits it checks."""
    builder = ModuleBuilder.for_target("host", kernels.target)
    info = emit_functions(CpuHostProgram(builder, placed, kernels))
    return builder.text(), info


def scratch_bytes(kernels: KernelSet) -> int | Dim:
    """Return the scratch that the greediest kernel needs."""
    sizes = [kernel.emitted.scratch_bytes for kernel in kernels.compiled.values()]
    return dim.maximum(dim.greatest(sizes), 0) if sizes else 0
