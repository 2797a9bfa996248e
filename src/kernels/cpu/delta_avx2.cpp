#define REPRISE_ISA avx2
#include "kernels/cpu/delta_kernel.h"
