#include "graphex/codegen/compiler.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/BLAKE3.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "graphex/base/error.h"
#include "graphex/codegen/code_memory.h"
#include "graphex/codegen/codegen_digest.h"
#include "graphex/codegen/jit.h"
#include "graphex/codegen/loop_spec.h"
#include "graphex/codegen/module_llvm.h"
#include "graphex/codegen/object_cache.h"
#include "graphex/codegen/sanitize_llvm.h"
#include "graphex/kernels/blobs.h"

namespace graphex::codegen {
namespace {

// Hashes fields with their lengths, so that no two sequences of fields run together.
class KeyHash {
 public:
  void add(std::string_view text) {
    add(static_cast<int64_t>(text.size()));
    hash_.update(llvm::StringRef(text.data(), text.size()));
  }
  void add(int64_t number) { hash_.update(llvm::ArrayRef(reinterpret_cast<const uint8_t*>(&number), sizeof number)); }
  void add(const CacheKey& key) { hash_.update(llvm::ArrayRef(key)); }
  CacheKey key() { return hash_.final(); }

 private:
  llvm::BLAKE3 hash_;
};

CacheKey blob_key(std::string_view name, Isa isa) {
  KeyHash hash;
  for (const kernels::Blob& blob : kernels::blobs())
    if (blob.name == name && blob.level == name_of(isa)) hash.add(std::string_view(blob.data, blob.size));
  return hash.key();
}

// What all kernels of a compiler have in common: our generator, LLVM and the target.
CacheKey target_key(const Target& target) {
  KeyHash hash;
  hash.add(kCodegenDigest);
  hash.add(LLVM_VERSION_STRING);
  hash.add(sanitizer());
  hash.add(name_of(target.isa));
  hash.add(target.cpu);
  hash.add(target.features);
  hash.add(int64_t{target.vector_width});
  return hash.key();
}

std::string object_of(const KernelRequest& request, const Target& target) {
  const auto context = make_context();
  const auto module = build_module(request, target, *context);
  return compile_module(*module, target);
}

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&cores);
}

Target chosen_target(const CompilerOptions& options) {
  if (options.isa) return host_target(options.isa);
  const char* text = std::getenv("GRAPHEX_ISA");
  return host_target(parse_isa(text ? text : ""));
}

void check_code_memory(const std::string& folder) {
  if (CodeMemory(folder).way() == "forbidden")
    fail(ErrorKind::kUnsupported,
         "the system forbids this process executable memory, also from a memory file and from ",
         folder.empty() ? "disk" : folder, "; allow one of them (memfd_create, or a file system without noexec)");
}

// Calls body(0) .. body(count - 1), on at most `threads` threads, this one included. The body doesn't throw.
template <class Body>
void parallel_for(size_t count, int threads, const Body& body) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::jthread> helpers;
  const size_t wanted = std::min(count, static_cast<size_t>(std::max(threads, 1)));
  for (size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  work();
}

}  // namespace

struct KernelCompiler::Impl {
  struct Job {
    CacheKey key;
    const KernelRequest* request;
    std::promise<Kernel> result;
  };

  explicit Impl(const CompilerOptions& options);
  CacheKey key_of(const KernelRequest& request);
  const CacheKey& module_key(const std::string& name);
  std::shared_future<Kernel> find_or_add(const CacheKey& key, const KernelRequest& request, std::vector<Job>& jobs);
  bool load(Job& job);
  void build(Job& job);
  void finish(Job& job, const std::string& object);

  const Target target;
  const CacheKey common_key;
  const int threads;
  const std::string folder;
  std::unique_ptr<ObjectCache> cache;
  Jit jit;
  mutable std::mutex mutex;  // guards what follows
  std::map<std::string, CacheKey> module_keys;
  std::map<CacheKey, std::shared_future<Kernel>> kernels;
  CompilerStats stats;
};

KernelCompiler::Impl::Impl(const CompilerOptions& options)
    : target(chosen_target(options)),
      common_key(target_key(target)),
      threads(options.threads > 0 ? options.threads : usable_cores()),
      folder(options.cache_dir.empty() ? default_cache_folder() : options.cache_dir),
      jit(folder) {
  if (!options.use_cache) return;
  cache = std::make_unique<ObjectCache>(folder);
  if (!cache->problem().empty()) {
    std::fprintf(stderr, "graphex: the cache of compiled kernels is off: %s\n", cache->problem().c_str());
  }
}

const CacheKey& KernelCompiler::Impl::module_key(const std::string& name) {
  const std::lock_guard lock(mutex);
  const auto known = module_keys.find(name);
  return known != module_keys.end() ? known->second
                                    : module_keys.emplace(name, blob_key(name, target.isa)).first->second;
}

CacheKey KernelCompiler::Impl::key_of(const KernelRequest& request) {
  KeyHash hash;
  hash.add(common_key);
  hash.add(static_cast<int64_t>(request.index()));
  if (const auto* hand = std::get_if<HandKernel>(&request)) {
    hash.add(module_key(hand->module));
    hash.add(hand->module);
    hash.add(hand->entry);
    auto knobs = hand->knobs;
    std::sort(knobs.begin(), knobs.end());
    for (const auto& [name, value] : knobs) {
      hash.add(name);
      hash.add(value);
    }
  } else {
    hash.add(module_key("scalar"));
    const auto& spec = std::get<LoopKernel>(request).spec;
    GX_CHECK(spec, "a loop was requested without a spec");
    hash.add(spec->key());
  }
  return hash.key();
}

std::shared_future<Kernel> KernelCompiler::Impl::find_or_add(const CacheKey& key, const KernelRequest& request,
                                                             std::vector<Job>& jobs) {
  const std::lock_guard lock(mutex);
  if (const auto known = kernels.find(key); known != kernels.end()) {
    ++stats.reused;
    return known->second;
  }
  jobs.push_back({key, &request, {}});
  return kernels.emplace(key, jobs.back().result.get_future().share()).first->second;
}

void KernelCompiler::Impl::finish(Job& job, const std::string& object) {
  const std::string entry = entry_name(*job.request);
  const LinkedKernel linked = jit.link(object, entry);
  job.result.set_value({linked.run, linked.tiles, linked.workspace, linked.divisible, entry});
}

bool KernelCompiler::Impl::load(Job& job) {
  const std::optional<std::string> object = cache ? cache->load(job.key) : std::nullopt;
  if (!object) return false;
  try {
    finish(job, *object);
  } catch (const Error&) {
    cache->reject();
    return false;
  }
  const std::lock_guard lock(mutex);
  ++stats.from_cache;
  return true;
}

void KernelCompiler::Impl::build(Job& job) {
  try {
    check_code_memory(folder);
    const std::string object = object_of(*job.request, target);
    finish(job, object);
    if (cache) cache->store(job.key, object);
    const std::lock_guard lock(mutex);
    ++stats.compiled;
  } catch (...) {
    {
      const std::lock_guard lock(mutex);
      kernels.erase(job.key);  // a later request may try again
    }
    job.result.set_exception(std::current_exception());
  }
}

KernelCompiler::KernelCompiler(CompilerOptions options) : impl_(std::make_unique<Impl>(options)) {}
KernelCompiler::~KernelCompiler() = default;

std::vector<Kernel> KernelCompiler::compile(std::span<const KernelRequest> requests) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<CacheKey> keys;
  for (const KernelRequest& request : requests) keys.push_back(impl_->key_of(request));
  std::vector<Impl::Job> jobs;
  std::vector<std::shared_future<Kernel>> results;
  for (size_t i = 0; i < keys.size(); ++i) results.push_back(impl_->find_or_add(keys[i], requests[i], jobs));
  std::erase_if(jobs, [&](Impl::Job& job) { return impl_->load(job); });
  parallel_for(jobs.size(), impl_->threads, [&](size_t i) { impl_->build(jobs[i]); });
  for (const auto& result : results) result.wait();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stats.seconds += elapsed.count();
  }
  std::vector<Kernel> kernels;
  for (const auto& result : results) kernels.push_back(result.get());
  return kernels;
}

CompilerStats KernelCompiler::stats() const {
  const std::lock_guard lock(impl_->mutex);
  CompilerStats stats = impl_->stats;
  stats.cache_rejected = impl_->cache ? impl_->cache->rejected() : 0;
  return stats;
}

Isa KernelCompiler::isa() const { return impl_->target.isa; }
std::string KernelCompiler::cpu_name() const { return impl_->target.cpu; }
std::string KernelCompiler::cache_problem() const {
  return impl_->cache ? impl_->cache->problem() : "it is switched off";
}

std::string compile_to_object(const KernelRequest& request, Isa isa) { return object_of(request, level_target(isa)); }

}  // namespace graphex::codegen
