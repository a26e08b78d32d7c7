// Attention on f32; the contract is in attention.h.
#include "graphex/kernels/attention/entries.h"

GX_ATTENTION(f32, float)
