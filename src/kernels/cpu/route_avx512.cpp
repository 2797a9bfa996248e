#define REPRISE_ISA avx512
#include "kernels/cpu/route_kernel.h"
