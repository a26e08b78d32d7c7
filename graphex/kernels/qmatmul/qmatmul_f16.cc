#include "graphex/kernels/qmatmul/entry.h"

GX_QMATMUL_ENTRY(gx_qmatmul_f16, graphex::kernels::f16)
