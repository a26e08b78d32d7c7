// The interpreter's lock around our C++: released while kernels run or compile, taken again for Python.
//
// Up to Python 3.13 a thread that asks for the lock after the interpreter began to end is ended there by a forced
// unwind, and a C++ frame that may not throw turns that into std::terminate. Such a thread waits here instead until the
// process is over, as Python 3.14 lets it.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

namespace graphex::python {

// Calls `body`, which may take the lock or run Python. It must own no Python objects: the unwind would release them
// without the lock before it comes here.
template <class Body>
decltype(auto) with_python(const Body& body) {
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

class GilRelease {
 public:
  GilRelease() : thread_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() {
    with_python([&] { PyEval_RestoreThread(thread_); });
  }

 private:
  PyThreadState* thread_;
};

}  // namespace graphex::python
