// The matmul of matmul.h for bf16 operands.
#include "graphex/kernels/matmul/entry.h"

GX_MATMUL_ENTRY(gx_matmul_bf16, graphex::kernels::bf16)
