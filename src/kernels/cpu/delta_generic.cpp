#define REPRISE_ISA generic
#include "kernels/cpu/delta_kernel.h"
