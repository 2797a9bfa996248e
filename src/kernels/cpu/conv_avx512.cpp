#define REPRISE_ISA avx512
#include "kernels/cpu/conv_kernel.h"
