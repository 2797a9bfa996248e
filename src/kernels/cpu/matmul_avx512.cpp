#define REPRISE_ISA avx512
#include "kernels/cpu/matmul_kernel.h"
