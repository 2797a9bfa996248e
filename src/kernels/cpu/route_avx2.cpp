#define REPRISE_ISA avx2
#include "kernels/cpu/route_kernel.h"
