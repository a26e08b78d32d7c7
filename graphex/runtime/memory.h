// Blocks of memory with shared owners: arenas of frames, what islands may keep, outputs handed to another library.
//
// A block's data starts 64-byte aligned; its header lies just before, so that a bare data pointer is enough to find it
// again (a DLPack deleter gets no more). Counting and freeing are thread-safe and call nothing but the allocator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace graphex::runtime {

inline constexpr size_t kMemoryAlignment = 64;

class MemoryBlock {
 public:
  // Contents are undefined. No bytes give a valid address too. Throws kOutOfMemory, naming the bytes asked for.
  // With `huge_pages` the block starts on a 2 MiB boundary and the system is asked to back it by huge pages; for
  // blocks of several MiB that live long.
  static MemoryBlock allocate(size_t bytes, bool huge_pages = false);
  // Takes over the owner's share that release() gave up.
  static MemoryBlock adopt(void* data) { return MemoryBlock(data); }
  // Bytes in all blocks of the process, as asked for.
  static int64_t live_bytes();

  MemoryBlock() = default;
  MemoryBlock(const MemoryBlock& other) : data_(other.data_) { retain(); }
  MemoryBlock(MemoryBlock&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  MemoryBlock& operator=(MemoryBlock other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~MemoryBlock() { drop(); }

  void* data() const { return data_; }
  size_t bytes() const { return data_ ? header()->bytes : 0; }
  int owners() const { return data_ ? header()->owners.load(std::memory_order_acquire) : 0; }
  explicit operator bool() const { return data_ != nullptr; }

  // Leaves this owner's share with the data pointer, for code that can hold only that; adopt() takes it back.
  void* release() { return std::exchange(data_, nullptr); }

 private:
  struct alignas(kMemoryAlignment) Header {
    std::atomic<int> owners;
    size_t bytes;
    void* mapping;  // null if the block is from the heap
    size_t mapped_bytes;
  };
  static_assert(sizeof(Header) == kMemoryAlignment);

  explicit MemoryBlock(void* data) : data_(data) {}
  static MemoryBlock place(char* data, size_t bytes, void* mapping, size_t mapped_bytes);
  static MemoryBlock from_heap(size_t bytes);
  static MemoryBlock from_huge_pages(size_t bytes);
  Header* header() const { return static_cast<Header*>(data_) - 1; }
  void retain() const {
    if (data_) header()->owners.fetch_add(1, std::memory_order_relaxed);
  }
  void drop();

  void* data_ = nullptr;
};

}  // namespace graphex::runtime
