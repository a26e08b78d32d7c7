// The one exception type of the library. A message says what was expected, what came, and what to do next.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace graphex {

enum class ErrorKind { kInvalidArgument, kUnsupported, kOutOfMemory, kIo, kIndex, kRuntime, kInternal };

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Streams its parts into one message: fail(ErrorKind::kIo, "cannot open ", path).
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, Parts&&... parts) {
  std::ostringstream text;
  (text << ... << std::forward<Parts>(parts));
  throw Error(kind, text.str());
}

}  // namespace graphex

// A caller's fault.
#define GX_CHECK(condition, ...)                                                            \
  do {                                                                                      \
    if (!(condition)) ::graphex::fail(::graphex::ErrorKind::kInvalidArgument, __VA_ARGS__); \
  } while (0)
// A fault of ours.
#define GX_ASSERT(condition)                                                                                  \
  do {                                                                                                        \
    if (!(condition))                                                                                         \
      ::graphex::fail(::graphex::ErrorKind::kInternal, "internal error: ", #condition, " at ", __FILE__, ":", \
                      __LINE__, "; please report it");                                                        \
  } while (0)
