#define REPRISE_ISA generic
#include "kernels/cpu/matmul_kernel.h"
