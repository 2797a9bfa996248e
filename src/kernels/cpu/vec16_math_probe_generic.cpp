#define REPRISE_ISA generic
#include "kernels/cpu/vec16_math_probe_kernel.h"
