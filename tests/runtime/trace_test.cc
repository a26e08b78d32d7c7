#include "graphex/runtime/trace.h"

#include <gtest/gtest.h>

namespace graphex::runtime {
namespace {

TEST(Trace, NotesWhatASpanWasOf) {
  WorkerTrace trace;
  {
    const ScopedSpan span(&trace, SpanKind::kBarrier, 7);
  }
  ASSERT_EQ(trace.spans.size(), 1u);
  EXPECT_EQ(trace.spans[0].kind, SpanKind::kBarrier);
  EXPECT_EQ(trace.spans[0].step, 7);
  EXPECT_LE(trace.spans[0].begin, trace.spans[0].end);
  EXPECT_EQ(trace.thread, trace_thread());
}

TEST(Trace, NothingIsNotedWithoutATraceOrOfADroppedSpan) {
  WorkerTrace trace;
  {
    const ScopedSpan span(nullptr, SpanKind::kKernel, 0);
  }
  {
    ScopedSpan span(&trace, SpanKind::kKernel, 0);
    span.drop();
  }
  EXPECT_TRUE(trace.spans.empty());
}

}  // namespace
}  // namespace graphex::runtime
