// Attention on f16; the contract is in attention.h.
#include "graphex/kernels/attention/entries.h"

GX_ATTENTION(f16, graphex::kernels::f16)
