#define REPRISE_ISA generic
#include "kernels/cpu/conv_kernel.h"
