#define REPRISE_ISA avx2
#include "kernels/cpu/index_kernel.h"
