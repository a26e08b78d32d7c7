#include "graphex/kernels/blocks/entry.h"

GX_BLOCKS_ENTRY(gx_blocks_bf16, graphex::kernels::bf16)
