#define REPRISE_ISA avx2
#include "kernels/cpu/attention_kernel.h"
