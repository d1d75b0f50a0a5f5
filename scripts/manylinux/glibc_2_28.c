/* What libstdc++ for a newer glibc asks of it, and glibc 2.28 does not have. Seen inside of the library alone. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* glibc 2.32: whether there is one thread. 0 says there may be more: counters are atomic. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

/* glibc 2.36: for std::random_device. */
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t bits;
  if (getentropy(&bits, sizeof bits) != 0) abort();
  return bits;
}
