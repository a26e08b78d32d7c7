#include "graphex/kernels/blocks/entry.h"

GX_BLOCKS_ENTRY(gx_blocks_f16, graphex::kernels::f16)
