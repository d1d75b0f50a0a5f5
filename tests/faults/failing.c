/* Preloaded into a process: its calls that change files below a folder are counted, and at one of them it is
 * killed, or the disk is full from there on.
 *
 *   FAULT_UNDER   the folder, without links
 *   FAULT_KIND    count, kill (SIGKILL), full (ENOSPC) or signal:NUMBER (sent once, the call is made)
 *   FAULT_AT      the call, from 1
 *   FAULT_LOG     a file elsewhere that gets a byte for each call
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int below(const char* path) {
  const char* folder = getenv("FAULT_UNDER");
  size_t size;
  if (folder == NULL || path == NULL) return 0;
  size = strlen(folder);
  return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

static int path_below(int base, const char* path) {
  char full[PATH_MAX];
  char place[64];
  ssize_t size;
  if (path == NULL) return 0;
  if (path[0] == '/') return below(path);
  (void)snprintf(place, sizeof place, base == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", base);
  size = readlink(place, full, sizeof full - 1);
  if (size < 0) return 0;
  full[size] = '\0';
  return below(full);
}

static int file_below(int descriptor) { return path_below(descriptor, ""); }

/* Counts a call; not 0 where it is to fail. `takes` says that it needs space. */
static int fails(int takes) {
  const char* kind = getenv("FAULT_KIND");
  const char* at = getenv("FAULT_AT");
  const char* log = getenv("FAULT_LOG");
  const long number = atomic_fetch_add(&calls, 1) + 1;
  const long wanted = at == NULL ? 0 : atol(at);
  if (log != NULL) {
    const long file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)syscall(SYS_write, file, ".", 1);
    (void)syscall(SYS_close, file);
  }
  if (kind == NULL || wanted == 0) return 0;
  if (strcmp(kind, "kill") == 0 && number == wanted) (void)kill(getpid(), SIGKILL);
  if (strncmp(kind, "signal:", 7) == 0 && number == wanted) (void)kill(getpid(), atoi(kind + 7));
  if (strcmp(kind, "full") == 0 && number >= wanted && takes) {
    errno = ENOSPC;
    return 1;
  }
  return 0;
}

#define OPENED(name, base, ...)                                                                              \
  do {                                                                                                       \
    unsigned mode = 0;                                                                                       \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                                             \
      va_list more;                                                                                          \
      va_start(more, flags);                                                                                 \
      mode = va_arg(more, unsigned);                                                                         \
      va_end(more);                                                                                          \
    }                                                                                                        \
    if ((flags & (O_CREAT | O_TRUNC)) && path_below(base, path) && fails((flags & O_CREAT) != 0)) return -1; \
    return REAL(name)(__VA_ARGS__, flags, mode);                                                             \
  } while (0)

int open(const char* path, int flags, ...) { OPENED(open, AT_FDCWD, path); }
int open64(const char* path, int flags, ...) { OPENED(open64, AT_FDCWD, path); }
int openat(int base, const char* path, int flags, ...) { OPENED(openat, base, base, path); }
int openat64(int base, const char* path, int flags, ...) { OPENED(openat64, base, base, path); }

ssize_t write(int file, const void* bytes, size_t size) {
  if (file_below(file) && fails(1)) return -1;
  return REAL(write)(file, bytes, size);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
  if (file_below(file) && fails(1)) return -1;
  return REAL(writev)(file, parts, count);
}

ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t place) {
  if (file_below(file) && fails(1)) return -1;
  return REAL(pwrite64)(file, bytes, size, place);
}

size_t fwrite(const void* bytes, size_t size, size_t count, FILE* file) {
  if (file_below(fileno(file)) && fails(1)) return 0;
  return REAL(fwrite)(bytes, size, count, file);
}

int ftruncate64(int file, off64_t size) {
  if (file_below(file) && fails(1)) return -1;
  return REAL(ftruncate64)(file, size);
}

int mkdir(const char* path, mode_t mode) {
  if (path_below(AT_FDCWD, path) && fails(1)) return -1;
  return REAL(mkdir)(path, mode);
}

int rename(const char* from, const char* to) {
  if (path_below(AT_FDCWD, to) && fails(1)) return -1;
  return REAL(rename)(from, to);
}

int renameat(int from_base, const char* from, int to_base, const char* to) {
  if (path_below(to_base, to) && fails(1)) return -1;
  return REAL(renameat)(from_base, from, to_base, to);
}

int unlink(const char* path) {
  if (path_below(AT_FDCWD, path) && fails(0)) return -1;
  return REAL(unlink)(path);
}

int unlinkat(int base, const char* path, int flags) {
  if (path_below(base, path) && fails(0)) return -1;
  return REAL(unlinkat)(base, path, flags);
}

int chmod(const char* path, mode_t mode) {
  if (path_below(AT_FDCWD, path) && fails(0)) return -1;
  return REAL(chmod)(path, mode);
}

int fchmodat(int base, const char* path, mode_t mode, int flags) {
  if (path_below(base, path) && fails(0)) return -1;
  return REAL(fchmodat)(base, path, mode, flags);
}
