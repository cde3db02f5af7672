source_filename = "kernels"
define  void @k_155814687cb6b4fb(ptr  %env, i64  %chunk) nounwind "frame-pointer"="all" {
entry:
  %v1 = load ptr, ptr %env, align 8, !invariant.load !0
  store float 0x0000000000000000, ptr %v1, align 4
  ret void
}
!0 = !{}

; k_155814687cb6b4fb over 1 chunks: output 0, temp