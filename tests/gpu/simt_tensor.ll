; Tensor cores, matrix loads and asynchronous copies of the emulated GPU.
;
; A warp's operands lie in registers of all its lanes: each lane leaves its own where the others find
; them, then computes its part of the result. Layouts are those of the PTX ISA, "Matrix fragments".
; Sums are in the order of k, each product added on its own.

@current = external global i32
declare void @simt.bar.warp.sync(i32)

; What each thread has given to its warp: registers of operands, or an address.
@tensor_words = global [1024 x [8 x i64]] zeroinitializer

define internal void @tensor_give(i32 %number, i64 %word) noinline {
  %thread = load i32, ptr @current
  %at = getelementptr [1024 x [8 x i64]], ptr @tensor_words, i32 0, i32 %thread, i32 %number
  store i64 %word, ptr %at
  ret void
}

define internal void @tensor_give_word(i32 %number, i32 %word) noinline {
  %wide = zext i32 %word to i64
  call void @tensor_give(i32 %number, i64 %wide)
  ret void
}

; What a lane of this thread's warp has given.
define internal i64 @tensor_taken(i32 %lane, i32 %number) noinline {
  %thread = load i32, ptr @current
  %warp = and i32 %thread, -32
  %other = or i32 %warp, %lane
  %at = getelementptr [1024 x [8 x i64]], ptr @tensor_words, i32 0, i32 %other, i32 %number
  %found = load i64, ptr %at
  ret i64 %found
}

; ---- matrix loads: four matrices of 8 x 8 elements of 16 bits, a row of one at each lane's address

define {i32, i32, i32, i32} @simt.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) %row) noinline {
  %address = ptrtoint ptr addrspace(3) %row to i64
  call void @tensor_give(i32 0, i64 %address)
  call void @simt.bar.warp.sync(i32 -1)
  %thread = load i32, ptr @current
  %lane = and i32 %thread, 31
  %group = lshr i32 %lane, 2
  %inner = and i32 %lane, 3
  %lane0 = add i32 %group, 0
  %a0 = call i64 @tensor_taken(i32 %lane0, i32 0)
  %p0 = inttoptr i64 %a0 to ptr
  %q0 = getelementptr i32, ptr %p0, i32 %inner
  %v0 = load i32, ptr %q0
  %lane1 = add i32 %group, 8
  %a1 = call i64 @tensor_taken(i32 %lane1, i32 0)
  %p1 = inttoptr i64 %a1 to ptr
  %q1 = getelementptr i32, ptr %p1, i32 %inner
  %v1 = load i32, ptr %q1
  %lane2 = add i32 %group, 16
  %a2 = call i64 @tensor_taken(i32 %lane2, i32 0)
  %p2 = inttoptr i64 %a2 to ptr
  %q2 = getelementptr i32, ptr %p2, i32 %inner
  %v2 = load i32, ptr %q2
  %lane3 = add i32 %group, 24
  %a3 = call i64 @tensor_taken(i32 %lane3, i32 0)
  %p3 = inttoptr i64 %a3 to ptr
  %q3 = getelementptr i32, ptr %p3, i32 %inner
  %v3 = load i32, ptr %q3
  %out0 = insertvalue {i32, i32, i32, i32} undef, i32 %v0, 0
  %out1 = insertvalue {i32, i32, i32, i32} %out0, i32 %v1, 1
  %out2 = insertvalue {i32, i32, i32, i32} %out1, i32 %v2, 2
  %out3 = insertvalue {i32, i32, i32, i32} %out2, i32 %v3, 3
  call void @simt.bar.warp.sync(i32 -1)
  ret {i32, i32, i32, i32} %out3
}

define {i32, i32, i32, i32} @simt.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3(ptr addrspace(3) %row) noinline {
  %address = ptrtoint ptr addrspace(3) %row to i64
  call void @tensor_give(i32 0, i64 %address)
  call void @simt.bar.warp.sync(i32 -1)
  %thread = load i32, ptr @current
  %lane = and i32 %thread, 31
  %group = lshr i32 %lane, 2
  %inner = and i32 %lane, 3
  %even = shl i32 %inner, 1
  %lane00 = add i32 %even, 0
  %a00 = call i64 @tensor_taken(i32 %lane00, i32 0)
  %p00 = inttoptr i64 %a00 to ptr
  %q00 = getelementptr i16, ptr %p00, i32 %group
  %s00 = load i16, ptr %q00
  %w00 = zext i16 %s00 to i32
  %lane01 = add i32 %even, 1
  %a01 = call i64 @tensor_taken(i32 %lane01, i32 0)
  %p01 = inttoptr i64 %a01 to ptr
  %q01 = getelementptr i16, ptr %p01, i32 %group
  %s01 = load i16, ptr %q01
  %w01 = zext i16 %s01 to i32
  %u0 = shl i32 %w01, 16
  %v0 = or i32 %u0, %w00
  %lane10 = add i32 %even, 8
  %a10 = call i64 @tensor_taken(i32 %lane10, i32 0)
  %p10 = inttoptr i64 %a10 to ptr
  %q10 = getelementptr i16, ptr %p10, i32 %group
  %s10 = load i16, ptr %q10
  %w10 = zext i16 %s10 to i32
  %lane11 = add i32 %even, 9
  %a11 = call i64 @tensor_taken(i32 %lane11, i32 0)
  %p11 = inttoptr i64 %a11 to ptr
  %q11 = getelementptr i16, ptr %p11, i32 %group
  %s11 = load i16, ptr %q11
  %w11 = zext i16 %s11 to i32
  %u1 = shl i32 %w11, 16
  %v1 = or i32 %u1, %w10
  %lane20 = add i32 %even, 16
  %a20 = call i64 @tensor_taken(i32 %lane20, i32 0)
  %p20 = inttoptr i64 %a20 to ptr
  %q20 = getelementptr i16, ptr %p20, i32 %group
  %s20 = load i16, ptr %q20
  %w20 = zext i16 %s20 to i32
  %lane21 = add i32 %even, 17
  %a21 = call i64 @tensor_taken(i32 %lane21, i32 0)
  %p21 = inttoptr i64 %a21 to ptr
  %q21 = getelementptr i16, ptr %p21, i32 %group
  %s21 = load i16, ptr %q21
  %w21 = zext i16 %s21 to i32
  %u2 = shl i32 %w21, 16
  %v2 = or i32 %u2, %w20
  %lane30 = add i32 %even, 24
  %a30 = call i64 @tensor_taken(i32 %lane30, i32 0)
  %p30 = inttoptr i64 %a30 to ptr
  %q30 = getelementptr i16, ptr %p30, i32 %group
  %s30 = load i16, ptr %q30
  %w30 = zext i16 %s30 to i32
  %lane31 = add i32 %even, 25
  %a31 = call i64 @tensor_taken(i32 %lane31, i32 0)
  %p31 = inttoptr i64 %a31 to ptr
  %q31 = getelementptr i16, ptr %p31, i32 %group
  %s31 = load i16, ptr %q31
  %w31 = zext i16 %s31 to i32
  %u3 = shl i32 %w31, 16
  %v3 = or i32 %u3, %w30
  %out0 = insertvalue {i32, i32, i32, i32} undef, i32 %v0, 0
  %out1 = insertvalue {i32, i32, i32, i32} %out0, i32 %v1, 1
  %out2 = insertvalue {i32, i32, i32, i32} %out1, i32 %v2, 2
  %out3 = insertvalue {i32, i32, i32, i32} %out2, i32 %v3, 3
  call void @simt.bar.warp.sync(i32 -1)
  ret {i32, i32, i32, i32} %out3
}

; ---- products of 16-bit floats

define internal float @tensor_half(i32 %word, i32 %odd, i1 %is_bf16) noinline {
  %shift = shl i32 %odd, 4
  %moved = lshr i32 %word, %shift
  %bits = trunc i32 %moved to i16
  br i1 %is_bf16, label %brain, label %half
brain:
  %wide = zext i16 %bits to i32
  %upper = shl i32 %wide, 16
  %first = bitcast i32 %upper to float
  ret float %first
half:
  %narrow = bitcast i16 %bits to half
  %second = fpext half %narrow to float
  ret float %second
}

; The products of two words, one k after the other, are added to a sum.
define internal float @tensor_add_floats(i32 %a, i32 %b, float %sum, i1 %is_bf16) noinline {
  %a0 = call float @tensor_half(i32 %a, i32 0, i1 %is_bf16)
  %b0 = call float @tensor_half(i32 %b, i32 0, i1 %is_bf16)
  %p0 = fmul float %a0, %b0
  %s0 = fadd float %sum, %p0
  %a1 = call float @tensor_half(i32 %a, i32 1, i1 %is_bf16)
  %b1 = call float @tensor_half(i32 %b, i32 1, i1 %is_bf16)
  %p1 = fmul float %a1, %b1
  %s1 = fadd float %s0, %p1
  ret float %s1
}

; Element `number` (0 to 3) of this lane's part of the result.
define internal float @tensor_float(i32 %number, float %start, i1 %is_bf16) noinline {
entry:
  %thread = load i32, ptr @current
  %lane = and i32 %thread, 31
  %group_lane = and i32 %lane, 28
  %inner = and i32 %lane, 3
  %twice = shl i32 %inner, 1
  %odd = and i32 %number, 1
  %column = or i32 %twice, %odd
  %column_lane = shl i32 %column, 2
  %half = lshr i32 %number, 1
  br label %step
step:
  %word = phi i32 [0, %entry], [%next, %step]
  %sum = phi float [%start, %entry], [%more, %step]
  %offset = and i32 %word, 3
  %upper = lshr i32 %word, 2
  %a_lane = or i32 %group_lane, %offset
  %b_lane = or i32 %column_lane, %offset
  %a_upper = shl i32 %upper, 1
  %a_number = or i32 %a_upper, %half
  %b_number = or i32 %upper, 4
  %a_wide = call i64 @tensor_taken(i32 %a_lane, i32 %a_number)
  %b_wide = call i64 @tensor_taken(i32 %b_lane, i32 %b_number)
  %a = trunc i64 %a_wide to i32
  %b = trunc i64 %b_wide to i32
  %more = call float @tensor_add_floats(i32 %a, i32 %b, float %sum, i1 %is_bf16)
  %next = add i32 %word, 1
  %goes_on = icmp ult i32 %next, 8
  br i1 %goes_on, label %step, label %done
done:
  ret float %more
}

define {float, float, float, float} @simt.mma.m16n8k16.row.col.bf16(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, float %c0, float %c1, float %c2, float %c3) noinline {
  call void @tensor_give_word(i32 0, i32 %a0)
  call void @tensor_give_word(i32 1, i32 %a1)
  call void @tensor_give_word(i32 2, i32 %a2)
  call void @tensor_give_word(i32 3, i32 %a3)
  call void @tensor_give_word(i32 4, i32 %b0)
  call void @tensor_give_word(i32 5, i32 %b1)
  call void @simt.bar.warp.sync(i32 -1)
  %r0 = call float @tensor_float(i32 0, float %c0, i1 1)
  %r1 = call float @tensor_float(i32 1, float %c1, i1 1)
  %r2 = call float @tensor_float(i32 2, float %c2, i1 1)
  %r3 = call float @tensor_float(i32 3, float %c3, i1 1)
  %out0 = insertvalue {float, float, float, float} undef, float %r0, 0
  %out1 = insertvalue {float, float, float, float} %out0, float %r1, 1
  %out2 = insertvalue {float, float, float, float} %out1, float %r2, 2
  %out3 = insertvalue {float, float, float, float} %out2, float %r3, 3
  call void @simt.bar.warp.sync(i32 -1)
  ret {float, float, float, float} %out3
}

define {float, float, float, float} @simt.mma.m16n8k16.row.col.f32.f32(<2 x half> %a0, <2 x half> %a1, <2 x half> %a2, <2 x half> %a3, <2 x half> %b0, <2 x half> %b1, float %c0, float %c1, float %c2, float %c3) noinline {
  %w_a0 = bitcast <2 x half> %a0 to i32
  call void @tensor_give_word(i32 0, i32 %w_a0)
  %w_a1 = bitcast <2 x half> %a1 to i32
  call void @tensor_give_word(i32 1, i32 %w_a1)
  %w_a2 = bitcast <2 x half> %a2 to i32
  call void @tensor_give_word(i32 2, i32 %w_a2)
  %w_a3 = bitcast <2 x half> %a3 to i32
  call void @tensor_give_word(i32 3, i32 %w_a3)
  %w_b0 = bitcast <2 x half> %b0 to i32
  call void @tensor_give_word(i32 4, i32 %w_b0)
  %w_b1 = bitcast <2 x half> %b1 to i32
  call void @tensor_give_word(i32 5, i32 %w_b1)
  call void @simt.bar.warp.sync(i32 -1)
  %r0 = call float @tensor_float(i32 0, float %c0, i1 0)
  %r1 = call float @tensor_float(i32 1, float %c1, i1 0)
  %r2 = call float @tensor_float(i32 2, float %c2, i1 0)
  %r3 = call float @tensor_float(i32 3, float %c3, i1 0)
  %out0 = insertvalue {float, float, float, float} undef, float %r0, 0
  %out1 = insertvalue {float, float, float, float} %out0, float %r1, 1
  %out2 = insertvalue {float, float, float, float} %out1, float %r2, 2
  %out3 = insertvalue {float, float, float, float} %out2, float %r3, 3
  call void @simt.bar.warp.sync(i32 -1)
  ret {float, float, float, float} %out3
}

; ---- products of bytes

define internal i32 @tensor_add_bytes(i32 %a, i32 %b, i32 %sum) noinline {
  %x = bitcast i32 %a to <4 x i8>
  %y = bitcast i32 %b to <4 x i8>
  %xw = sext <4 x i8> %x to <4 x i32>
  %yw = sext <4 x i8> %y to <4 x i32>
  %products = mul <4 x i32> %xw, %yw
  %p0 = extractelement <4 x i32> %products, i32 0
  %p1 = extractelement <4 x i32> %products, i32 1
  %p2 = extractelement <4 x i32> %products, i32 2
  %p3 = extractelement <4 x i32> %products, i32 3
  %s0 = add i32 %sum, %p0
  %s1 = add i32 %s0, %p1
  %s2 = add i32 %s1, %p2
  %s3 = add i32 %s2, %p3
  ret i32 %s3
}

define internal i32 @tensor_integer(i32 %number, i32 %start) noinline {
entry:
  %thread = load i32, ptr @current
  %lane = and i32 %thread, 31
  %group_lane = and i32 %lane, 28
  %inner = and i32 %lane, 3
  %twice = shl i32 %inner, 1
  %odd = and i32 %number, 1
  %column = or i32 %twice, %odd
  %column_lane = shl i32 %column, 2
  %half = lshr i32 %number, 1
  br label %step
step:
  %word = phi i32 [0, %entry], [%next, %step]
  %sum = phi i32 [%start, %entry], [%more, %step]
  %offset = and i32 %word, 3
  %upper = lshr i32 %word, 2
  %a_lane = or i32 %group_lane, %offset
  %b_lane = or i32 %column_lane, %offset
  %a_upper = shl i32 %upper, 1
  %a_number = or i32 %a_upper, %half
  %b_number = or i32 %upper, 4
  %a_wide = call i64 @tensor_taken(i32 %a_lane, i32 %a_number)
  %b_wide = call i64 @tensor_taken(i32 %b_lane, i32 %b_number)
  %a = trunc i64 %a_wide to i32
  %b = trunc i64 %b_wide to i32
  %more = call i32 @tensor_add_bytes(i32 %a, i32 %b, i32 %sum)
  %next = add i32 %word, 1
  %goes_on = icmp ult i32 %next, 8
  br i1 %goes_on, label %step, label %done
done:
  ret i32 %more
}

define {i32, i32, i32, i32} @simt.mma.m16n8k32.row.col.s8(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, i32 %c0, i32 %c1, i32 %c2, i32 %c3) noinline {
  call void @tensor_give_word(i32 0, i32 %a0)
  call void @tensor_give_word(i32 1, i32 %a1)
  call void @tensor_give_word(i32 2, i32 %a2)
  call void @tensor_give_word(i32 3, i32 %a3)
  call void @tensor_give_word(i32 4, i32 %b0)
  call void @tensor_give_word(i32 5, i32 %b1)
  call void @simt.bar.warp.sync(i32 -1)
  %r0 = call i32 @tensor_integer(i32 0, i32 %c0)
  %r1 = call i32 @tensor_integer(i32 1, i32 %c1)
  %r2 = call i32 @tensor_integer(i32 2, i32 %c2)
  %r3 = call i32 @tensor_integer(i32 3, i32 %c3)
  %out0 = insertvalue {i32, i32, i32, i32} undef, i32 %r0, 0
  %out1 = insertvalue {i32, i32, i32, i32} %out0, i32 %r1, 1
  %out2 = insertvalue {i32, i32, i32, i32} %out1, i32 %r2, 2
  %out3 = insertvalue {i32, i32, i32, i32} %out2, i32 %r3, 3
  call void @simt.bar.warp.sync(i32 -1)
  ret {i32, i32, i32, i32} %out3
}

; ---- products of f64: A is 8 x 4, B 4 x 8, an element of each in every lane

define {double, double} @simt.mma.m8n8k4.row.col.f64(double %a, double %b, double %c0, double %c1) noinline {
  %a_bits = bitcast double %a to i64
  %b_bits = bitcast double %b to i64
  call void @tensor_give(i32 0, i64 %a_bits)
  call void @tensor_give(i32 1, i64 %b_bits)
  call void @simt.bar.warp.sync(i32 -1)
  %thread = load i32, ptr @current
  %row_lane = and i32 %thread, 28
  %inner = and i32 %thread, 3
  %column_lane0 = shl i32 %inner, 3
  %column_lane1 = or i32 %column_lane0, 4
  %al00 = or i32 %row_lane, 0
  %bl00 = or i32 %column_lane0, 0
  %ai00 = call i64 @tensor_taken(i32 %al00, i32 0)
  %bi00 = call i64 @tensor_taken(i32 %bl00, i32 1)
  %af00 = bitcast i64 %ai00 to double
  %bf00 = bitcast i64 %bi00 to double
  %s00 = call double @llvm.fma.f64(double %af00, double %bf00, double %c0)
  %al01 = or i32 %row_lane, 1
  %bl01 = or i32 %column_lane0, 1
  %ai01 = call i64 @tensor_taken(i32 %al01, i32 0)
  %bi01 = call i64 @tensor_taken(i32 %bl01, i32 1)
  %af01 = bitcast i64 %ai01 to double
  %bf01 = bitcast i64 %bi01 to double
  %s01 = call double @llvm.fma.f64(double %af01, double %bf01, double %s00)
  %al02 = or i32 %row_lane, 2
  %bl02 = or i32 %column_lane0, 2
  %ai02 = call i64 @tensor_taken(i32 %al02, i32 0)
  %bi02 = call i64 @tensor_taken(i32 %bl02, i32 1)
  %af02 = bitcast i64 %ai02 to double
  %bf02 = bitcast i64 %bi02 to double
  %s02 = call double @llvm.fma.f64(double %af02, double %bf02, double %s01)
  %al03 = or i32 %row_lane, 3
  %bl03 = or i32 %column_lane0, 3
  %ai03 = call i64 @tensor_taken(i32 %al03, i32 0)
  %bi03 = call i64 @tensor_taken(i32 %bl03, i32 1)
  %af03 = bitcast i64 %ai03 to double
  %bf03 = bitcast i64 %bi03 to double
  %s03 = call double @llvm.fma.f64(double %af03, double %bf03, double %s02)
  %al10 = or i32 %row_lane, 0
  %bl10 = or i32 %column_lane1, 0
  %ai10 = call i64 @tensor_taken(i32 %al10, i32 0)
  %bi10 = call i64 @tensor_taken(i32 %bl10, i32 1)
  %af10 = bitcast i64 %ai10 to double
  %bf10 = bitcast i64 %bi10 to double
  %s10 = call double @llvm.fma.f64(double %af10, double %bf10, double %c1)
  %al11 = or i32 %row_lane, 1
  %bl11 = or i32 %column_lane1, 1
  %ai11 = call i64 @tensor_taken(i32 %al11, i32 0)
  %bi11 = call i64 @tensor_taken(i32 %bl11, i32 1)
  %af11 = bitcast i64 %ai11 to double
  %bf11 = bitcast i64 %bi11 to double
  %s11 = call double @llvm.fma.f64(double %af11, double %bf11, double %s10)
  %al12 = or i32 %row_lane, 2
  %bl12 = or i32 %column_lane1, 2
  %ai12 = call i64 @tensor_taken(i32 %al12, i32 0)
  %bi12 = call i64 @tensor_taken(i32 %bl12, i32 1)
  %af12 = bitcast i64 %ai12 to double
  %bf12 = bitcast i64 %bi12 to double
  %s12 = call double @llvm.fma.f64(double %af12, double %bf12, double %s11)
  %al13 = or i32 %row_lane, 3
  %bl13 = or i32 %column_lane1, 3
  %ai13 = call i64 @tensor_taken(i32 %al13, i32 0)
  %bi13 = call i64 @tensor_taken(i32 %bl13, i32 1)
  %af13 = bitcast i64 %ai13 to double
  %bf13 = bitcast i64 %bi13 to double
  %s13 = call double @llvm.fma.f64(double %af13, double %bf13, double %s12)
  %out0 = insertvalue {double, double} undef, double %s03, 0
  %out1 = insertvalue {double, double} %out0, double %s13, 1
  call void @simt.bar.warp.sync(i32 -1)
  ret {double, double} %out1
}
declare double @llvm.fma.f64(double, double, double)

; ---- asynchronous copies: a thread's own queue, which is copied when the thread waits for it

@copy_to = global [1024 x [64 x ptr]] zeroinitializer
@copy_from = global [1024 x [64 x ptr]] zeroinitializer
@copy_bytes = global [1024 x [64 x i32]] zeroinitializer
@copy_count = global [1024 x i32] zeroinitializer

; Copy `bytes` bytes; the others of the 16 become zeros.
define void @simt.cp.async.cg.shared.global.16.s(ptr addrspace(3) %to, ptr addrspace(1) %from, i32 %bytes) noinline {
  %thread = load i32, ptr @current
  %count_at = getelementptr [1024 x i32], ptr @copy_count, i32 0, i32 %thread
  %count = load i32, ptr %count_at
  %is_full = icmp uge i32 %count, 64
  br i1 %is_full, label %full, label %note
full:
  call void @llvm.trap()
  unreachable
note:
  %to_at = getelementptr [1024 x [64 x ptr]], ptr @copy_to, i32 0, i32 %thread, i32 %count
  %from_at = getelementptr [1024 x [64 x ptr]], ptr @copy_from, i32 0, i32 %thread, i32 %count
  %bytes_at = getelementptr [1024 x [64 x i32]], ptr @copy_bytes, i32 0, i32 %thread, i32 %count
  %plain_to = addrspacecast ptr addrspace(3) %to to ptr
  %plain_from = addrspacecast ptr addrspace(1) %from to ptr
  store ptr %plain_to, ptr %to_at
  store ptr %plain_from, ptr %from_at
  store i32 %bytes, ptr %bytes_at
  %next = add i32 %count, 1
  store i32 %next, ptr %count_at
  ret void
}
declare void @llvm.trap()

define void @simt.cp.async.wait.all() noinline {
entry:
  %thread = load i32, ptr @current
  %count_at = getelementptr [1024 x i32], ptr @copy_count, i32 0, i32 %thread
  %count = load i32, ptr %count_at
  store i32 0, ptr %count_at
  br label %head
head:
  %number = phi i32 [0, %entry], [%following, %copied]
  %goes_on = icmp ult i32 %number, %count
  br i1 %goes_on, label %copy, label %done
copy:
  %to_at = getelementptr [1024 x [64 x ptr]], ptr @copy_to, i32 0, i32 %thread, i32 %number
  %from_at = getelementptr [1024 x [64 x ptr]], ptr @copy_from, i32 0, i32 %thread, i32 %number
  %bytes_at = getelementptr [1024 x [64 x i32]], ptr @copy_bytes, i32 0, i32 %thread, i32 %number
  %to = load ptr, ptr %to_at
  %from = load ptr, ptr %from_at
  %bytes = load i32, ptr %bytes_at
  store <16 x i8> zeroinitializer, ptr %to, align 16
  br label %byte
byte:
  %place = phi i32 [0, %copy], [%next_place, %move]
  %more = icmp ult i32 %place, %bytes
  br i1 %more, label %move, label %copied
move:
  %source = getelementptr i8, ptr %from, i32 %place
  %target = getelementptr i8, ptr %to, i32 %place
  %held = load i8, ptr %source
  store i8 %held, ptr %target
  %next_place = add i32 %place, 1
  br label %byte
copied:
  %following = add i32 %number, 1
  br label %head
done:
  ret void
}
