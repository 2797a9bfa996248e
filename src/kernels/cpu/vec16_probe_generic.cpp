#define REPRISE_ISA generic
#include "kernels/cpu/vec16_probe_kernel.h"
