#define REPRISE_ISA generic
#include "kernels/cpu/row_codec_kernel.h"
