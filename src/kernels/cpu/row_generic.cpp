#define REPRISE_ISA generic
#include "kernels/cpu/row_kernel.h"
