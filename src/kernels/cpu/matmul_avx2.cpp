#define REPRISE_ISA avx2
#include "kernels/cpu/matmul_kernel.h"
