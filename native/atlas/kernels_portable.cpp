#define ATLAS_LANES 4
#define ATLAS_NAME "portable"
#define ATLAS_KERNELS kPortableKernels
#include "kernels.inc"
