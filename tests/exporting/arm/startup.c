/* What a Cortex-M does after a reset, until newlib's _start takes over: memory is as the loader left it. */

#include <stdint.h>

extern void _start(void);
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
  _start();
  fault();
}

__attribute__((section(".vectors"), used)) static const void* const vectors[16] = {
    stack_top, (const void*)reset, (const void*)fault, (const void*)fault,
    (const void*)fault, (const void*)fault, (const void*)fault,
};
