// What platform.h says, by the calls of Linux, macOS and what is like them.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

#include "platform.h"

namespace calib8::platform {
namespace {

class Descriptor {
 public:
  // A pipe is not waited for.
  explicit Descriptor(const char* path) : number_(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) (void)close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

MappedFile failed() {
  MappedFile file;
  file.problem = std::generic_category().message(errno);
  return file;
}

}  // namespace

void* aligned_memory(size_t alignment, size_t bytes) { return std::aligned_alloc(alignment, bytes); }

void free_aligned(void* memory) { std::free(memory); }

bool forget_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  return madvise(memory, bytes, MADV_DONTNEED) == 0;
#else
  return false;  // there it is a hint, and the bytes stay
#endif
}

void use_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#if defined(MADV_HUGEPAGE)
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
}

int64_t machine_bytes() {
  const auto pages = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return pages > 0 && page > 0 ? pages * page : INT64_MAX / 4;
}

int usable_processors() {
#if defined(__linux__)
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
#else
  return static_cast<int>(std::thread::hardware_concurrency());
#endif
}

void pin_to_processor([[maybe_unused]] int index) {
#if defined(__linux__)
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&one);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && seen++ == index % CPU_COUNT(&allowed)) CPU_SET(cpu, &one);
  }
  (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
#endif
}

#if defined(__linux__)

static_assert(sizeof(cpu_set_t) == sizeof(Processors));

Processors keep_off_mine(std::thread& thread) {
  cpu_set_t allowed;
  const int mine = sched_getcpu();
  if (mine < 0 || mine >= CPU_SETSIZE) return {};
  if (pthread_getaffinity_np(thread.native_handle(), sizeof allowed, &allowed) != 0) return {};
  Processors before;
  std::memcpy(&before, &allowed, sizeof before);
  CPU_CLR(mine, &allowed);
  if (CPU_COUNT(&allowed) == 0) return {};
  if (pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed) != 0) return {};
  return before;
}

void use_processors(const Processors& processors) {
  cpu_set_t allowed;
  std::memcpy(&allowed, &processors, sizeof allowed);
  if (CPU_COUNT(&allowed) > 0) (void)pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
}

#else

Processors keep_off_mine(std::thread&) { return {}; }

void use_processors(const Processors&) {}

#endif

void on_fork(void (*in_child)()) { (void)pthread_atfork(nullptr, nullptr, in_child); }

MappedFile map_file(const char* path) {
  const Descriptor descriptor(path);
  struct stat found{};
  if (descriptor.number() < 0 || fstat(descriptor.number(), &found) != 0) return failed();
  MappedFile file;
  file.regular = S_ISREG(found.st_mode);
  const auto size = file.regular ? static_cast<size_t>(found.st_size) : 0;
  if (size == 0) return file;
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number(), 0);
  if (memory == MAP_FAILED && errno == ENOMEM) throw std::bad_alloc();
  if (memory == MAP_FAILED) return failed();
  const auto unmap = [size](const uint8_t* bytes) { (void)munmap(const_cast<uint8_t*>(bytes), size); };
  file.bytes = std::shared_ptr<const uint8_t>(static_cast<const uint8_t*>(memory), unmap);
  file.size = size;
  return file;
}

}  // namespace calib8::platform
