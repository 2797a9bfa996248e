#define REPRISE_ISA avx512
#include "kernels/cpu/attention_kernel.h"
