// The matmul of matmul.h for f16 operands.
#include "graphex/kernels/matmul/entry.h"

GX_MATMUL_ENTRY(gx_matmul_f16, graphex::kernels::f16)
