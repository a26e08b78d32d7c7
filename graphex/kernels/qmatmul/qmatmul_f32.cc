#include "graphex/kernels/qmatmul/entry.h"

GX_QMATMUL_ENTRY(gx_qmatmul_f32, float)
