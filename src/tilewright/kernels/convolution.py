"""Convolution as a sum of matrix products, one per tap of the window.

The image is stored panel by panel: 32 channels of one pixel are 32 bytes, and pixels of a row
follow each other. A tile of 32 pixels may therefore start at any pixel, and the im2col matrix
never exists: its tiles are read from the image in VMEM, moved by the tap. Rows of the image must
be long enough for the last tile of a row under the last tap: Q rounded up to 32, plus KW - 1.
"""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import tilewright.tile as tw


@tw.kernel
def conv2d(
    x: tw.fp8["H", "W", "C"].panels(), w: tw.fp8["KH", "KW", "C", "N"],
    out: tw.bf16["R", "Q", "N"],
):  # fmt: skip
    """out[r, q] = sum over the window of x[r + i, q + j] @ w[i, j]; stride 1, x padded by the caller"""
    for r in tw.each(out.R):
        for n in tw.grid(out.N):
            for q in tw.grid(out.Q):
                total = tw.zeros()
                for i in range(w.KH):
                    for j in range(w.KW):
                        total += x[r + i, q + j, :] @ w[i, j, :, n]
                out[r, q, n] = total
