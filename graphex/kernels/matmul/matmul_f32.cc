// The matmul of matmul.h for f32 operands.
#include "graphex/kernels/matmul/entry.h"

GX_MATMUL_ENTRY(gx_matmul_f32, float)
