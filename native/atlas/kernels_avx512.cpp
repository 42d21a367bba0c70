#define ATLAS_LANES 16
#define ATLAS_NAME "avx512"
#define ATLAS_KERNELS kAvx512Kernels
#include "kernels.inc"
