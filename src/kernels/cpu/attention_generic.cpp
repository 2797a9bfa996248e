#define REPRISE_ISA generic
#include "kernels/cpu/attention_kernel.h"
