// The table of instruction sets: for every kind of step the function that carries it out.
#pragma once

#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "../cpu.h"
#include "steps.h"

namespace calib8::engine {

using Kernel = void (*)(const void* step, const Memory& memory, Part part);
using KernelTable = std::array<Kernel, kStepKinds>;

// Place of a kind of step in AllSteps.
template <class Step, int i = 0>
constexpr int kind_of() {
  if constexpr (std::is_same_v<std::tuple_element_t<i, AllSteps>, Step>) {
    return i;
  } else {
    return kind_of<Step, i + 1>();
  }
}

// A typed kernel as an entry of the table.
template <class Step, void (*function)(const Step&, const Memory&, Part)>
static void set_kernel(KernelTable& table) {
  table[kind_of<Step>()] = [](const void* step, const Memory& memory, Part part) {
    function(*static_cast<const Step*>(step), memory, part);
  };
}

struct Isa {
  const char* name;            // as CALIB8_ISA takes it: "reference", "avx2", "neon" …
  Features needs;              // of the processor
  void (*fill)(KernelTable&);  // replaces entries by its own
  const char* base;            // the one whose entries it starts from; null for the reference
  bool asks_pair_sums;         // its convolutions look at Memory::pair_sums_fit
};

// Those that a processor with these features can run, fastest first; "reference" is always the last.
std::vector<const Isa*> available_isas(Features features);

// The one that CALIB8_ISA=name chooses there. Throws std::invalid_argument as `isa_by_name` does.
const Isa& chosen_isa(const std::string& name, Features features);

// The one with this name; for "avx512", a name of the statistics kernel, the best one that it stands for.
// Throws std::invalid_argument when it is unknown or not available.
const Isa& isa_by_name(const std::string& name);

// The fastest one, or the one that the environment variable CALIB8_ISA names (empty counts as not set).
const Isa& default_isa();

// All kernels of an instruction set: its own, and those of the sets below for the rest.
KernelTable kernel_table(const Isa& isa);

// For every kind of step the name of the set that its kernel comes from.
using Origins = std::array<const char*, kStepKinds>;
Origins kernel_origins(const Isa& isa);

// What each file of kernels contributes. Files of a set are compiled with its flags alone.
void fill_reference(KernelTable& table);
#if defined(__x86_64__)
void fill_avx2(KernelTable& table);
void fill_avxvnni(KernelTable& table);
void fill_avx512vnni(KernelTable& table);
void fill_amx(KernelTable& table);
#endif
#if defined(__aarch64__)
void fill_neon(KernelTable& table);
void fill_neondot(KernelTable& table);
void fill_neoni8mm(KernelTable& table);
#endif

}  // namespace calib8::engine
