#include "streams.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <mutex>

#include "call.h"
#include "gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphex::python {
namespace {

using runtime::Event;
using runtime::Moment;
using runtime::Stream;
using StreamRef = std::shared_ptr<Stream>;

thread_local StreamRef current;
thread_local int core_limit = 0;  // 0: none

struct Finished {
  std::mutex mutex;
  std::vector<std::unique_ptr<Call>> calls;
};

Finished& finished() {
  static auto* of_process = new Finished();  // streams may outlive main
  return *of_process;
}

int release_pending(void*) {
  release_now();
  return 0;
}

// Ctrl-C ends the wait; the stream goes on.
void wait_for(const Moment& moment) {
  for (bool reached = moment.reached(); !reached;) {
    {
      const GilRelease unlocked;
      reached = moment.wait_for(std::chrono::milliseconds(50));
    }
    if (!reached && PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void synchronize(Stream& stream) {
  if (!stream.idle()) {
    auto moment = std::make_shared<Moment>();
    stream.mark(moment);
    wait_for(*moment);
  }
  release_now();
  stream.raise_failure();
}

// The host's own wait: also what the default stream, which is the calling thread, does.
void wait_for_event(const Event& event) {
  const auto moment = event.moment();
  if (!moment) return;
  wait_for(*moment);
  release_now();
  moment->raise_failure();
}

// A stream whose last owner is Python waits for its work, so not with the lock.
StreamRef make_stream(int cores, std::vector<int> cpus, int nice) {
  return StreamRef(new Stream({cores, std::move(cpus), nice}), [](Stream* stream) {
    if (PyGILState_Check()) {
      const GilRelease unlocked;
      delete stream;
    } else {
      delete stream;
    }
  });
}

}  // namespace

void settle() {
  const StreamRef stream = current;
  if (stream) synchronize(*stream);
}

int within_core_limit(int wanted) { return core_limit > 0 ? std::min(wanted, core_limit) : wanted; }

void release_later(std::unique_ptr<Call> call) {
  {
    const std::lock_guard lock(finished().mutex);
    finished().calls.push_back(std::move(call));
  }
  Py_AddPendingCall(release_pending, nullptr);  // refused when many wait already; whoever comes next does it then
}

void release_now() {
  std::vector<std::unique_ptr<Call>> calls;
  const std::lock_guard lock(finished().mutex);
  calls.swap(finished().calls);
}

void define_streams(nb::module_& m) {
  nb::class_<Stream>(m, "Stream")
      .def(nb::new_(&make_stream), "cores"_a, "cpus"_a, "nice"_a)
      .def("synchronize", &synchronize)
      .def("query",
           [](Stream& stream) {
             const bool idle = stream.idle();
             if (idle) stream.raise_failure();
             return idle;
           })
      .def("wait", [](Stream& stream, const Event& event) {
        if (auto moment = event.moment()) stream.wait(std::move(moment));
      });
  nb::class_<Event>(m, "Event")
      .def(nb::init<>())
      .def("record", &Event::record, "stream"_a.none())
      .def("query", &Event::query)
      .def("synchronize", &wait_for_event)
      .def_static("milliseconds", &Event::milliseconds, "start"_a, "end"_a);
  m.def("set_current_stream", [](StreamRef stream) { current = std::move(stream); }, "stream"_a.none());
  m.def("settle", &settle);
  m.def("core_limit", [] { return core_limit; });
  m.def("set_core_limit", [](int cores) { core_limit = cores; }, "cores"_a);
}

}  // namespace graphex::python
