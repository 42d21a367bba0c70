// Which tile arithmetic this processor can run.
#include <cstring>
#include <initializer_list>

#include "kernels.hpp"

namespace atlas {

const Kernels* find_kernels(const char* name) {
#ifdef ATLAS_X86
  __builtin_cpu_init();
  if (std::strcmp(name, "avx512") == 0)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
               ? &kAvx512Kernels
               : nullptr;
  if (std::strcmp(name, "avx2") == 0)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")
               ? &kAvx2Kernels
               : nullptr;
#endif
  return std::strcmp(name, "portable") == 0 ? &kPortableKernels : nullptr;
}

const Kernels& best_kernels() {
  for (const char* name : {"avx512", "avx2"})
    if (const Kernels* found = find_kernels(name)) return *found;
  return kPortableKernels;
}

}  // namespace atlas
