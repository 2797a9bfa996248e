#define REPRISE_ISA avx2
#include "kernels/cpu/row_codec_kernel.h"
