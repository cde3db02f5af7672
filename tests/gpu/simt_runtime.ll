; The threads of one block of a GPU, on one CPU: what `llvm.nvvm.*` is, renamed to `simt.*`.
;
; Each thread is a fiber with a stack of its own. It runs until it waits or ends; then the next one
; runs, in an order that the caller gives. A barrier counts who came by; a shuffle leaves its value
; where the other lanes of the warp find it. If nobody moves on in a whole round, the block is stuck.

module asm ".text"
module asm ".globl simt_switch"
module asm ".type simt_switch,@function"
module asm "simt_switch:"
module asm "  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15"
module asm "  mov %rsp, (%rdi)"
module asm "  mov %rsi, %rsp"
module asm "  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp"
module asm "  ret"

; Save where this fiber is, and go on where another one was.
declare void @simt_switch(ptr, ptr)

; What runs the kernel at hand with its arguments, and what fills its shared memory.
@simt_entry = global ptr null
@simt_fill = global ptr null

@current = global i32 0
@block = global i32 0
@alive = global i32 0
@progress = global i64 0
@scheduler = global ptr null
@fibers = global [1024 x ptr] zeroinitializer
@ended = global [1024 x i8] zeroinitializer
@barrier_count = global i32 0
@barrier_round = global i32 0
@warp_count = global [32 x i32] zeroinitializer
@warp_round = global [32 x i32] zeroinitializer
@lane_values = global [1024 x i32] zeroinitializer

define void @pause() noinline {
  %thread = load i32, ptr @current
  %fiber = getelementptr [1024 x ptr], ptr @fibers, i32 0, i32 %thread
  %scheduler = load ptr, ptr @scheduler
  call void @simt_switch(ptr %fiber, ptr %scheduler)
  ret void
}

define void @moved() noinline {
  %before = load i64, ptr @progress
  %after = add i64 %before, 1
  store i64 %after, ptr @progress
  ret void
}

define i32 @simt.read.ptx.sreg.tid.x() noinline {
  %thread = load i32, ptr @current
  ret i32 %thread
}

define i32 @simt.read.ptx.sreg.ctaid.x() noinline {
  %block = load i32, ptr @block
  ret i32 %block
}

; Threads that have ended are not waited for, as on a GPU.
define void @simt.barrier.cta.sync.aligned.all(i32 %id) noinline {
  %round = load i32, ptr @barrier_round
  %before = load i32, ptr @barrier_count
  %count = add i32 %before, 1
  store i32 %count, ptr @barrier_count
  call void @moved()
  br label %check
check:
  %now = load volatile i32, ptr @barrier_round
  %same = icmp eq i32 %now, %round
  br i1 %same, label %counted, label %out
counted:
  %here = load volatile i32, ptr @barrier_count
  %alive = load volatile i32, ptr @alive
  %full = icmp uge i32 %here, %alive
  br i1 %full, label %release, label %wait
release:
  store i32 0, ptr @barrier_count
  %next = add i32 %round, 1
  store i32 %next, ptr @barrier_round
  ret void
wait:
  call void @pause()
  br label %check
out:
  ret void
}

define void @simt.bar.warp.sync(i32 %mask) noinline {
  %thread = load i32, ptr @current
  %warp = lshr i32 %thread, 5
  %count_at = getelementptr [32 x i32], ptr @warp_count, i32 0, i32 %warp
  %round_at = getelementptr [32 x i32], ptr @warp_round, i32 0, i32 %warp
  %round = load i32, ptr %round_at
  %before = load i32, ptr %count_at
  %count = add i32 %before, 1
  store i32 %count, ptr %count_at
  call void @moved()
  %full = icmp eq i32 %count, 32
  br i1 %full, label %release, label %wait
release:
  store i32 0, ptr %count_at
  %next = add i32 %round, 1
  store i32 %next, ptr %round_at
  ret void
wait:
  call void @pause()
  %now = load volatile i32, ptr %round_at
  %same = icmp eq i32 %now, %round
  br i1 %same, label %wait, label %out
out:
  ret void
}

; What another thread of the warp has given.
define i32 @shuffled(i32 %mask, i32 %value, i32 %other) noinline {
  %thread = load i32, ptr @current
  %mine = getelementptr [1024 x i32], ptr @lane_values, i32 0, i32 %thread
  store i32 %value, ptr %mine
  call void @simt.bar.warp.sync(i32 %mask)
  %theirs = getelementptr [1024 x i32], ptr @lane_values, i32 0, i32 %other
  %found = load i32, ptr %theirs
  call void @simt.bar.warp.sync(i32 %mask)
  ret i32 %found
}

define i32 @simt.shfl.sync.bfly.i32(i32 %mask, i32 %value, i32 %bits, i32 %clamp) noinline {
  %thread = load i32, ptr @current
  %other = xor i32 %thread, %bits
  %found = call i32 @shuffled(i32 %mask, i32 %value, i32 %other)
  ret i32 %found
}

define i32 @simt.shfl.sync.idx.i32(i32 %mask, i32 %value, i32 %lane, i32 %clamp) noinline {
  %thread = load i32, ptr @current
  %warp = and i32 %thread, -32
  %other = or i32 %warp, %lane
  %found = call i32 @shuffled(i32 %mask, i32 %value, i32 %other)
  ret i32 %found
}

define i32 @simt.shfl.sync.up.i32(i32 %mask, i32 %value, i32 %count, i32 %clamp) noinline {
  %thread = load i32, ptr @current
  %lane = and i32 %thread, 31
  %is_inside = icmp uge i32 %lane, %count
  %before = sub i32 %thread, %count
  %other = select i1 %is_inside, i32 %before, i32 %thread
  %found = call i32 @shuffled(i32 %mask, i32 %value, i32 %other)
  ret i32 %found
}

define void @fiber_entry() noinline {
  %entry = load ptr, ptr @simt_entry
  call void %entry()
  %thread = load i32, ptr @current
  %ended = getelementptr [1024 x i8], ptr @ended, i32 0, i32 %thread
  store i8 1, ptr %ended
  %before = load i32, ptr @alive
  %alive = sub i32 %before, 1
  store i32 %alive, ptr @alive
  call void @moved()
  call void @pause()
  unreachable
}

; Run one block; `order` is a permutation of its threads. Return 0, or 1 if it is stuck.
define i32 @run_block(i32 %threads, ptr %stacks, i64 %stack_bytes, ptr %order, i32 %number) noinline {
entry:
  store i32 %threads, ptr @alive
  store i32 0, ptr @barrier_count
  store [32 x i32] zeroinitializer, ptr @warp_count
  store i32 %number, ptr @block
  %fill = load ptr, ptr @simt_fill
  call void %fill()
  br label %prepare
prepare:
  %i = phi i32 [0, %entry], [%i_next, %prepare]
  %i_next = add i32 %i, 1
  %i_wide = zext i32 %i_next to i64
  %end = mul i64 %i_wide, %stack_bytes
  %start = sub i64 %end, 128
  ; Six saved registers, then the address that the switch returns to.
  %top = getelementptr i8, ptr %stacks, i64 %start
  %return_at = getelementptr i8, ptr %top, i64 48
  store ptr @fiber_entry, ptr %return_at
  %fiber_at = getelementptr [1024 x ptr], ptr @fibers, i32 0, i32 %i
  store ptr %top, ptr %fiber_at
  %ended_at = getelementptr [1024 x i8], ptr @ended, i32 0, i32 %i
  store i8 0, ptr %ended_at
  %more = icmp ult i32 %i_next, %threads
  br i1 %more, label %prepare, label %round
round:
  %progress_before = load i64, ptr @progress
  br label %turn
turn:
  %j = phi i32 [0, %round], [%j_next, %following]
  %j_next = add i32 %j, 1
  %order_at = getelementptr i32, ptr %order, i32 %j
  %thread = load i32, ptr %order_at
  %thread_ended_at = getelementptr [1024 x i8], ptr @ended, i32 0, i32 %thread
  %thread_ended = load i8, ptr %thread_ended_at
  %is_over = icmp ne i8 %thread_ended, 0
  br i1 %is_over, label %following, label %resume
resume:
  store i32 %thread, ptr @current
  %thread_fiber_at = getelementptr [1024 x ptr], ptr @fibers, i32 0, i32 %thread
  %thread_fiber = load ptr, ptr %thread_fiber_at
  call void @simt_switch(ptr @scheduler, ptr %thread_fiber)
  br label %following
following:
  %more_threads = icmp ult i32 %j_next, %threads
  br i1 %more_threads, label %turn, label %round_end
round_end:
  %left = load i32, ptr @alive
  %is_done = icmp eq i32 %left, 0
  br i1 %is_done, label %done, label %look
look:
  %progress_after = load i64, ptr @progress
  %is_stuck = icmp eq i64 %progress_after, %progress_before
  br i1 %is_stuck, label %stuck, label %round
done:
  ret i32 0
stuck:
  ret i32 1
}

; What x86 calls for a conversion of f64 to f16: to f32 with ties and what lies between kept odd, so
; that the second rounding is the only one.
define half @__truncdfhf2(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %is_inexact = fcmp one double %back, %x
  %bits = bitcast float %near to i32
  %last = and i32 %bits, 1
  %is_even = icmp eq i32 %last, 0
  %far = call double @llvm.fabs.f64(double %back)
  %want = call double @llvm.fabs.f64(double %x)
  %is_beyond = fcmp ogt double %far, %want
  %below = sub i32 %bits, 1
  %above = or i32 %bits, 1
  %odd = select i1 %is_beyond, i32 %below, i32 %above
  %moves = and i1 %is_inexact, %is_even
  %kept = select i1 %moves, i32 %odd, i32 %bits
  %single = bitcast i32 %kept to float
  %result = fptrunc float %single to half
  ret half %result
}
declare double @llvm.fabs.f64(double)
