#define REPRISE_ISA avx2
#include "kernels/cpu/conv_kernel.h"
