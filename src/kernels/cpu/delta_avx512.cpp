#define REPRISE_ISA avx512
#include "kernels/cpu/delta_kernel.h"
