/* From the reset of a Cortex-M to main: memory is as the loader left it, files are those of the host. */

#include <stdint.h>
#include <stdlib.h>

extern void initialise_monitor_handles(void);
extern int main(void);
extern char stack_top[];

__attribute__((noreturn)) static void fault(void) {
  register int operation __asm__("r0") = 0x18; /* semihosting: the program ends ... */
  register int reason __asm__("r1") = 0x20023; /* ... by an error */
  __asm__ volatile("bkpt 0xab" : : "r"(operation), "r"(reason));
  for (;;) {
  }
}

__attribute__((noreturn)) void reset(void) {
  *(volatile uint32_t*)0xE000ED88 |= 0xFu << 20; /* floats and vectors may be used */
  __asm__ volatile("dsb\n\tisb");
  initialise_monitor_handles();
  exit(main());
}

__attribute__((section(".vectors"), used)) static const void* const vectors[16] = {
    stack_top,          (const void*)reset, (const void*)fault, (const void*)fault,
    (const void*)fault, (const void*)fault, (const void*)fault,
};
