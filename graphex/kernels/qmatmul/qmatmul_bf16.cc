#include "graphex/kernels/qmatmul/entry.h"

GX_QMATMUL_ENTRY(gx_qmatmul_bf16, graphex::kernels::bf16)
