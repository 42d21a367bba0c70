# Start-up code: stack, trap vector, cleared .bss, main, then the verdict for the host.
#   _ret      0x0badd00d until main returns, then its result; 0xdead00cc after trap cc
#   _instret  instructions of main; mepc after a trap
#   _mcycle   cycles of main; mtval after a trap
# Result 0 ends in mpause, anything else in ebreak, which raises the core's fault line.
        .section .text.init,"ax",@progbits
        .globl  _start, __halt, __fail
_start:
        .option push
        .option norelax
        la      gp, __global_pointer$
        .option pop
        la      sp, __stack_top
        li      t0, 0x2200                  # float and vector state on: an emulator asks for it
        csrs    mstatus, t0
        la      t0, __trap
        csrw    mtvec, t0
        la      t0, __bss_start
        la      t1, __bss_end
1:      bgeu    t0, t1, 2f
        sw      zero, 0(t0)
        addi    t0, t0, 4
        j       1b
2:      la      s0, _ret
        li      t0, 0x0badd00d
        sw      t0, 0(s0)
        li      a0, 0
        li      a1, 0
        csrr    s2, mcycle
        csrr    s3, minstret
        call    main
        fence
        csrr    s4, minstret
        csrr    s5, mcycle
        sub     s4, s4, s3
        sub     s5, s5, s2
        sw      a0, 0(s0)
        sw      s4, 4(s0)
        sw      s5, 8(s0)
        bnez    a0, __fail
__halt: .word   0x08000073                  # mpause
        j       __halt
__fail: ebreak
        j       __fail
__trap: la      s0, _ret
        csrr    t0, mcause
        li      t1, 0xdead0000
        or      t0, t0, t1
        sw      t0, 0(s0)
        csrr    t0, mepc
        sw      t0, 4(s0)
        csrr    t0, mtval
        sw      t0, 8(s0)
        j       __fail
