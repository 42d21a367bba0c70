#define ATLAS_LANES 8
#define ATLAS_NAME "avx2"
#define ATLAS_KERNELS kAvx2Kernels
#include "kernels.inc"
