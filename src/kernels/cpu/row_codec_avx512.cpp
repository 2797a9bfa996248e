#define REPRISE_ISA avx512
#include "kernels/cpu/row_codec_kernel.h"
