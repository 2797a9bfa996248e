#define REPRISE_ISA generic
#include "kernels/cpu/route_kernel.h"
