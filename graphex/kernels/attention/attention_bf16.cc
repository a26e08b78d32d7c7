// Attention on bf16; the contract is in attention.h.
#include "graphex/kernels/attention/entries.h"

GX_ATTENTION(bf16, graphex::kernels::bf16)
