#define REPRISE_ISA avx512
#include "kernels/cpu/index_kernel.h"
