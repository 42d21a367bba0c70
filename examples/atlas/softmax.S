# Softmax over the rows of one 32x32 bf16 tile.
#
# DRAM   0x0000  input:  left half (columns 0..15), then right half, 2048 bytes
#        0x1000  result: the same layout
#
# softmax(x) = exp(x - max) / sum(exp(x - max)); the row operations write their result to every
# column, so no broadcast is needed. Division is a reciprocal and a product.
#
# Every vector instruction depends on the one before it. `delay N` between two of them makes the
# second dispatch N + 2 ticks after the first: 64 behind most of the vector unit (66 ticks),
# 32 behind a row maximum (34) and 37 behind a row sum (39).

.equ INPUT, 0x0000
.equ RESULT, 0x1000
.equ HALF, 1024

    li   x1, HALF
    li   x2, INPUT
    li   x3, INPUT + HALF
    li   x4, 0                      # VMEM of the left half
    li   x5, HALF                   # VMEM of the right half
    dma.load.ch0 x4, x2, x1
    dma.load.ch1 x5, x3, x1
    li   x6, RESULT
    li   x7, RESULT + HALF

    dma.wait.ch0
    vload m0, 0(x4)
    delay 31                        # passes while the right half is on its way
    dma.wait.ch1
    vload m1, 0(x5)
    delay 32

    vredmax.row.bf16 m2, m0         # row maximum
    delay 32
    vsub.bf16 m4, m0, m2
    delay 64
    vexp.bf16 m4, m4
    delay 64
    vredsum.row.bf16 m6, m4         # row sum
    delay 37
    vrecip.bf16 m6, m6
    delay 64
    vmul.bf16 m8, m4, m6
    delay 63

    vstore m8, 0(x4)
    delay 32
    vstore m9, 0(x5)
    dma.store.ch0 x6, x4, x1        # the left half leaves while the right one is stored
    delay 31
    dma.store.ch1 x7, x5, x1
    dma.wait.ch0
    dma.wait.ch1
