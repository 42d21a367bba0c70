# C = A @ B: a 32xKx32 fp8 matmul with a bf16 result on MXU1, transfers under compute.
#
# DRAM   0x00000  A as K/32 tiles of 32x32 fp8, tile after tile
#        0x10000  B, row-major K x 32 fp8 (32 rows are one tile)
#        0x20000  C, left half (columns 0..15), then right half
#        K/32 is STEPS: even, 4 or more.
#
# A transfer of one tile keeps the DMA engine busy for 516 ticks, a tile of compute takes 135.
# The kernel is as fast as its transfers if the engine never waits: two buffers, and the next
# load into a buffer is issued as soon as its tiles have moved to registers.

.equ STEPS, 16
.equ TILE, 1024

.equ A, 0x00000
.equ B, 0x10000
.equ C, 0x20000

# VMEM: two buffers of an A and a B tile each, then the result
.equ EVEN_A, 0x0000
.equ EVEN_B, 0x0400
.equ ODD_A, 0x0800
.equ ODD_B, 0x0c00
.equ OUT_LEFT, 0x1000
.equ OUT_RIGHT, 0x1400

    # The first loads go out before anything else is set up.
    li   x1, TILE
    li   x10, A
    li   x14, EVEN_A
    dma.load.ch0 x14, x10, x1
    li   x11, B
    li   x15, EVEN_B
    dma.load.ch1 x15, x11, x1
    li   x12, A + TILE
    li   x16, ODD_A
    dma.load.ch2 x16, x12, x1
    li   x13, B + TILE
    li   x17, ODD_B
    dma.load.ch3 x17, x13, x1

    li   x2, 2 * TILE               # from an even tile to the next even one
    li   x3, STEPS / 2 - 1          # rounds that still load; the last round does not

    # acc0 = 0
    vli.all m8, 0
    delay 63
    vli.all m9, 0
    delay 63
    vmatpush.acc.bf16.mxu1 acc0, m8

round:
    # Even tiles. Channels 0 and 1 are idle behind their waits: their registers may change. The
    # delay that keeps the two loads apart passes while B is still on its way.
    dma.wait.ch0
    vload m0, 0(x14)
    add  x10, x10, x2
    delay 29
    dma.wait.ch1
    add  x11, x11, x2
    vload m1, 0(x15)
    dma.load.ch0 x14, x10, x1       # A has left its buffer
    delay 31
    vmatpush.weight.mxu1 w0, m1
    dma.load.ch1 x15, x11, x1
    delay 29
    vmatmul.acc.mxu1 acc0, m0, w0

    # Odd tiles, the same on channels 2 and 3; the other weight slot.
    dma.wait.ch2
    vload m2, 0(x16)
    add  x12, x12, x2
    delay 29
    dma.wait.ch3
    add  x13, x13, x2
    vload m3, 0(x17)
    dma.load.ch2 x16, x12, x1
    delay 31
    vmatpush.weight.mxu1 w1, m3
    dma.load.ch3 x17, x13, x1
    addi x3, x3, -1
    bne  x3, x0, round
    delay 27                        # two delay slots: the rest of the push, and the matmul
    vmatmul.acc.mxu1 acc0, m2, w1

    # The last even and odd tiles: nothing left to load.
    dma.wait.ch0
    vload m0, 0(x14)
    delay 31
    dma.wait.ch1
    vload m1, 0(x15)
    delay 32
    vmatpush.weight.mxu1 w0, m1
    delay 30
    vmatmul.acc.mxu1 acc0, m0, w0
    dma.wait.ch2
    vload m2, 0(x16)
    delay 31
    dma.wait.ch3
    vload m3, 0(x17)
    li   x18, OUT_LEFT
    li   x19, OUT_RIGHT
    li   x20, C
    li   x21, C + TILE
    delay 26
    vmatpush.weight.mxu1 w1, m3
    delay 30
    vmatmul.acc.mxu1 acc0, m2, w1
    delay 33
    vmatpop.bf16.acc.mxu1 m4, acc0
    delay 29

    # The left half is on its way out while the right half is stored.
    vstore m4, 0(x18)
    delay 32
    vstore m5, 0(x19)
    dma.store.ch0 x20, x18, x1
    delay 31
    dma.store.ch1 x21, x19, x1
    dma.wait.ch0
    dma.wait.ch1
