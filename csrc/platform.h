// What C++17 has no words for: memory at aligned places, files in memory, processors, forks. The one header
// behind which systems differ; platform_posix.cc and platform_windows.cc stand behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#if defined(_WIN32)
#define CALIB8_EXPORT __declspec(dllexport)
#else
#define CALIB8_EXPORT __attribute__((visibility("default")))
#endif

namespace calib8::platform {

// Memory at a multiple of `alignment`, a power of two that divides `bytes`; nullptr where there is not so
// much.
void* aligned_memory(size_t alignment, size_t bytes);
void free_aligned(void* memory);

// Makes whole pages zeros without touching them; false where the system does not do that.
bool forget_pages(void* memory, size_t bytes);

// A hint that the memory is large and used everywhere.
void use_huge_pages(void* memory, size_t bytes);

// Bytes of memory of this machine; a number that no plan reaches where the system does not tell.
int64_t machine_bytes();

// Processors that this process may run on; 0 where the system does not tell.
int usable_processors();

// Keeps the calling thread on one of the processors that it may run on; nothing where that cannot be had.
void pin_to_processor(int index);

// Processors, a bit each; none where there is nothing to be done.
using Processors = std::array<uint64_t, 16>;

// Keeps another thread off the processor of the caller, where it may use others. Returns those that it could
// use before. For a sleeping thread that is to run at once: some systems, virtual machines above all, take a
// processor without work for a busy one, and let who is woken wait beside who woke it.
Processors keep_off_mine(std::thread& thread);

// Lets the calling thread use these processors.
void use_processors(const Processors& processors);

// Calls `in_child` in every forked child; where there are no forks, never.
void on_fork(void (*in_child)());

// A file in memory, for reading; nothing is read before it is touched. `path` is UTF-8.
struct MappedFile {
  std::shared_ptr<const uint8_t> bytes;
  size_t size = 0;
  bool regular = true;  // otherwise it is a folder, a pipe or the like, and was not opened
  std::string problem;  // the system's words where it cannot be read, or empty
};
// Throws std::bad_alloc where there is no room for it.
MappedFile map_file(const char* path);

}  // namespace calib8::platform
