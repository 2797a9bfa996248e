#define REPRISE_ISA avx512
#include "kernels/cpu/vec16_math_probe_kernel.h"
