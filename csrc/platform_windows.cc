// What platform.h says, by the calls of Windows.
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <malloc.h>
#include <windows.h>

#include <system_error>
#include <vector>

#include "platform.h"

namespace calib8::platform {
namespace {

class Handle {
 public:
  explicit Handle(HANDLE handle) : handle_(handle) {}
  ~Handle() {
    if (there()) (void)CloseHandle(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  bool there() const { return handle_ != nullptr && handle_ != INVALID_HANDLE_VALUE; }
  HANDLE get() const { return handle_; }

 private:
  HANDLE handle_;
};

MappedFile failed() {
  MappedFile file;
  file.problem = std::system_category().message(static_cast<int>(GetLastError()));
  return file;
}

// The processors of this process within its group, a bit each; 0 where the system does not tell.
DWORD_PTR allowed_processors() {
  DWORD_PTR mine = 0, all = 0;
  return GetProcessAffinityMask(GetCurrentProcess(), &mine, &all) != 0 ? mine : 0;
}

int count_of(DWORD_PTR mask) {
  int count = 0;
  for (; mask != 0; mask &= mask - 1) ++count;
  return count;
}

}  // namespace

void* aligned_memory(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }

void free_aligned(void* memory) { _aligned_free(memory); }

bool forget_pages(void*, size_t) { return false; }

void use_huge_pages(void*, size_t) {}  // they need a privilege

int64_t machine_bytes() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) != 0 ? static_cast<int64_t>(status.ullTotalPhys) : INT64_MAX / 4;
}

int usable_processors() { return count_of(allowed_processors()); }

void pin_to_processor(int index) {
  DWORD_PTR left = allowed_processors();
  if (left == 0) return;
  for (int skip = index % count_of(left); skip > 0; --skip) left &= left - 1;
  (void)SetThreadAffinityMask(GetCurrentThread(), left & (~left + 1));
}

Processors keep_off_mine(std::thread&) { return {}; }

void use_processors(const Processors&) {}

void on_fork(void (*)()) {}

MappedFile map_file(const char* path) {
  const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, nullptr, 0);
  if (length == 0) return failed();
  std::vector<wchar_t> wide(static_cast<size_t>(length));
  (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide.data(), length);
  MappedFile file;
  const DWORD attributes = GetFileAttributesW(wide.data());
  if (attributes == INVALID_FILE_ATTRIBUTES) return failed();
  file.regular = (attributes & FILE_ATTRIBUTE_DIRECTORY) == 0;
  if (!file.regular) return file;
  const Handle handle(CreateFileW(wide.data(), GENERIC_READ, FILE_SHARE_READ, nullptr, OPEN_EXISTING,
                                  FILE_ATTRIBUTE_NORMAL, nullptr));
  if (!handle.there()) return failed();
  file.regular = GetFileType(handle.get()) == FILE_TYPE_DISK;
  LARGE_INTEGER size{};
  if (!file.regular) return file;
  if (GetFileSizeEx(handle.get(), &size) == 0) return failed();
  if (size.QuadPart == 0) return file;
  const Handle mapping(CreateFileMappingW(handle.get(), nullptr, PAGE_READONLY, 0, 0, nullptr));
  void* const memory = mapping.there() ? MapViewOfFile(mapping.get(), FILE_MAP_READ, 0, 0, 0) : nullptr;
  if (memory == nullptr) return failed();
  file.bytes = std::shared_ptr<const uint8_t>(static_cast<const uint8_t*>(memory),
                                              [](const uint8_t* bytes) { (void)UnmapViewOfFile(bytes); });
  file.size = static_cast<size_t>(size.QuadPart);
  return file;
}

}  // namespace calib8::platform
