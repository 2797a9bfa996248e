#define REPRISE_ISA generic
#include "kernels/cpu/index_kernel.h"
