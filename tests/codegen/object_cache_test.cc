#include "graphex/codegen/object_cache.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

namespace graphex::codegen {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

class ObjectCacheFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "gx-cache-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    chmod(folder_.c_str(), 0755);
    key_.fill(0xa5);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string cache() const { return folder_ + "/cache"; }
  fs::path file() const { return fs::path(cache()) / "kernels" / (hex(key_) + ".o"); }

  void overwrite(const std::string& content) { std::ofstream(file(), std::ios::binary | std::ios::trunc) << content; }
  std::string content() {
    std::ifstream stream(file(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }

  // What the body returns in a child of ours.
  static int in_child(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
  }
  // The same as another user where we are root.
  static int as_nobody(const std::function<int()>& body) {
    return in_child([&] { return geteuid() == 0 && seteuid(kNobody) != 0 ? 99 : body(); });
  }

  std::string folder_;
  CacheKey key_;
  const std::string object_ = std::string(
      "\x7f"
      "ELF and so on\0with zeros",
      25);
};

mode_t mode_of(const fs::path& path) {
  struct stat info = {};
  stat(path.c_str(), &info);
  return info.st_mode & 0777;
}

TEST_F(ObjectCacheFile, GivesBackWhatWasStored) {
  ObjectCache cache(this->cache());
  EXPECT_EQ(cache.problem(), "");
  EXPECT_EQ(cache.load(key_), std::nullopt);
  cache.store(key_, object_);
  EXPECT_EQ(cache.load(key_), object_);
  EXPECT_EQ(ObjectCache(this->cache()).load(key_), object_);
  EXPECT_EQ(cache.rejected(), 0);
  EXPECT_EQ(mode_of(this->cache()), 0700u);
  EXPECT_EQ(mode_of(fs::path(this->cache()) / "kernels"), 0700u);
  EXPECT_EQ(mode_of(file()), 0600u);
}

TEST_F(ObjectCacheFile, LeavesNoTemporaries) {
  ObjectCache cache(this->cache());
  for (int i = 0; i < 3; ++i) cache.store(key_, object_ + std::to_string(i));
  EXPECT_EQ(std::distance(fs::directory_iterator(file().parent_path()), {}), 1);
  EXPECT_EQ(cache.load(key_), object_ + "2");
}

TEST_F(ObjectCacheFile, EveryTruncationIsRejected) {
  ObjectCache cache(this->cache());
  cache.store(key_, object_);
  const std::string whole = content();
  for (size_t length = 0; length < whole.size(); ++length) {
    overwrite(whole.substr(0, length));
    ASSERT_EQ(cache.load(key_), std::nullopt) << length;
  }
  EXPECT_EQ(cache.rejected(), static_cast<int>(whole.size()));
  overwrite(whole + "more");
  EXPECT_EQ(cache.load(key_), std::nullopt);
  cache.store(key_, object_);
  EXPECT_EQ(cache.load(key_), object_);
}

TEST_F(ObjectCacheFile, EveryDamagedByteIsNoticed) {
  ObjectCache cache(this->cache());
  cache.store(key_, object_);
  const std::string whole = content();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 1;
    overwrite(damaged);
    ASSERT_EQ(cache.load(key_), std::nullopt) << "byte " << i;
  }
}

TEST_F(ObjectCacheFile, AFileOfAnotherKeyIsRejected) {
  ObjectCache cache(this->cache());
  CacheKey other = key_;
  other[0] = 0;
  cache.store(other, object_);
  fs::copy_file(fs::path(this->cache()) / "kernels" / (hex(other) + ".o"), file());
  EXPECT_EQ(cache.load(key_), std::nullopt);
  EXPECT_EQ(cache.rejected(), 1);
}

TEST_F(ObjectCacheFile, AFileThatOthersCouldWriteIsRejected) {
  ObjectCache cache(this->cache());
  cache.store(key_, object_);
  chmod(file().c_str(), 0620);
  EXPECT_EQ(cache.load(key_), std::nullopt);
  fs::rename(file(), folder_ + "/moved");
  fs::create_symlink(folder_ + "/moved", file());
  EXPECT_EQ(cache.load(key_), std::nullopt);
  fs::remove(file());
  mkfifo(file().c_str(), 0600);
  EXPECT_EQ(cache.load(key_), std::nullopt);
  cache.store(key_, object_);
  EXPECT_EQ(cache.load(key_), object_);
}

TEST_F(ObjectCacheFile, AFileOfAnotherUserIsRejected) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make one";
  ObjectCache cache(this->cache());
  cache.store(key_, object_);
  ASSERT_EQ(chown(file().c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(cache.load(key_), std::nullopt);
}

TEST_F(ObjectCacheFile, AFolderThatOthersCouldWriteIsRefused) {
  for (const std::string& folder : {cache(), cache() + "/kernels"}) {
    {
      ObjectCache(cache()).store(key_, object_);
    }
    chmod(folder.c_str(), 0770);
    ObjectCache cache(this->cache());
    EXPECT_NE(cache.problem().find("can be written by another user"), std::string::npos) << cache.problem();
    EXPECT_NE(cache.problem().find(folder), std::string::npos) << cache.problem();
    EXPECT_NE(cache.problem().find("GRAPHEX_CACHE_DIR"), std::string::npos) << cache.problem();
    EXPECT_EQ(cache.load(key_), std::nullopt);
    chmod(folder.c_str(), 0700);
  }
}

TEST_F(ObjectCacheFile, AFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make one";
  {
    ObjectCache(cache()).store(key_, object_);
  }
  ASSERT_EQ(chown(cache().c_str(), kNobody, kNobody), 0);
  ObjectCache cache(this->cache());
  EXPECT_NE(cache.problem().find("belongs to"), std::string::npos) << cache.problem();
  EXPECT_EQ(cache.load(key_), std::nullopt);
}

TEST_F(ObjectCacheFile, WithoutWriteAccessItIsReadOnly) {
  {
    ObjectCache(cache()).store(key_, object_);
  }
  CacheKey other = key_;
  other[0] = 0;
  chmod(file().c_str(), 0444);
  chmod((cache() + "/kernels").c_str(), 0555);
  chmod(cache().c_str(), 0555);
  testing::internal::CaptureStderr();
  const int status = as_nobody([&] {
    ObjectCache cache(this->cache());
    if (!cache.problem().empty()) return 1;
    cache.store(other, object_);
    cache.store(other, object_);
    if (cache.load(other)) return 2;
    return cache.load(key_) == object_ ? 0 : 3;
  });
  const std::string told = testing::internal::GetCapturedStderr();
  chmod(cache().c_str(), 0700);
  chmod((cache() + "/kernels").c_str(), 0700);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(told, "graphex: compiled kernels are not kept for the next process: cannot write to " + cache() +
                      "/kernels: Permission denied\n");
}

// A limit on the size of files stands for the full disk.
TEST_F(ObjectCacheFile, AFullDiskLosesNothingThatIsThere) {
  ObjectCache(cache()).store(key_, object_);
  CacheKey other = key_;
  other[0] = 0;
  testing::internal::CaptureStderr();
  const int status = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    ObjectCache cache(this->cache());
    const std::string large(1 << 20, 'x');
    cache.store(other, large);
    cache.store(key_, large);
    if (cache.load(other)) return 2;
    return cache.load(key_) == object_ ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "graphex: compiled kernels are not kept for the next process: cannot write to " + cache() +
                "/kernels: File too large\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(file().parent_path()), {}), 1);
}

TEST_F(ObjectCacheFile, ProcessesThatStoreOneEntryAtOnceLeaveAWholeOne) {
  const auto content_of = [](int id) { return std::string(200'000, static_cast<char>('a' + id)); };
  ObjectCache(cache()).store(key_, content_of(0));
  std::vector<pid_t> children;
  for (int id = 0; id < 4; ++id) {
    const pid_t child = fork();
    if (child == 0) {
      ObjectCache cache(this->cache());
      for (int round = 0; round < 50; ++round) {
        cache.store(key_, content_of(id));
        const auto found = cache.load(key_);
        if (!found || *found != std::string(200'000, found->front())) _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(file().parent_path()), {}), 1);
}

TEST_F(ObjectCacheFile, AnImpossibleFolderIsAProblemOnly) {
  std::ofstream(folder_ + "/file") << "x";
  ObjectCache cache(folder_ + "/file/cache");
  EXPECT_NE(cache.problem().find("cannot open the folder " + folder_ + "/file/cache"), std::string::npos);
  cache.store(key_, object_);
  EXPECT_EQ(cache.load(key_), std::nullopt);
  EXPECT_NE(ObjectCache("").problem().find("HOME"), std::string::npos);
}

TEST_F(ObjectCacheFile, AFolderThatCannotBeMadeTellsWhy) {
  chmod(folder_.c_str(), 0555);
  const int failed = as_nobody([&] {
    const std::string problem = ObjectCache(folder_ + "/absent").problem();
    return problem.find("nor make it: Permission denied") == std::string::npos ? 1 : 0;
  });
  chmod(folder_.c_str(), 0755);
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace graphex::codegen
