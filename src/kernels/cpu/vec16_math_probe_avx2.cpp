#define REPRISE_ISA avx2
#include "kernels/cpu/vec16_math_probe_kernel.h"
