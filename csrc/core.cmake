# The native core as a static library, shared by the extension module and the native check.
option(CALIB8_WERROR "treat compiler warnings as errors" OFF)
set(CALIB8_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
if(CALIB8_WERROR)
  list(APPEND CALIB8_WARNINGS -Werror)
endif()

set(CALIB8_CSRC ${CMAKE_CURRENT_LIST_DIR})
set(CALIB8_SOURCES
  ${CALIB8_CSRC}/accumulate.cc
  ${CALIB8_CSRC}/cpu.cc
  ${CALIB8_CSRC}/dispatch.cc
  ${CALIB8_CSRC}/forks.cc
  ${CALIB8_CSRC}/histogram.cc
  ${CALIB8_CSRC}/histogram_reference.cc
  ${CALIB8_CSRC}/layout_count.cc
  ${CALIB8_CSRC}/layout_divergence.cc
  ${CALIB8_CSRC}/layout_smoothed.cc
  ${CALIB8_CSRC}/natural_log.cc
  ${CALIB8_CSRC}/product_reference.cc
  ${CALIB8_CSRC}/search_entropy.cc
  ${CALIB8_CSRC}/search_mse.cc
  ${CALIB8_CSRC}/second_order.cc
  ${CALIB8_CSRC}/spans.cc
  ${CALIB8_CSRC}/taps.cc
  ${CALIB8_CSRC}/thread_pool.cc)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  list(APPEND CALIB8_SOURCES ${CALIB8_CSRC}/histogram_avx2.cc ${CALIB8_CSRC}/histogram_avx512.cc
    ${CALIB8_CSRC}/product_avx2.cc)
  set_source_files_properties(${CALIB8_CSRC}/histogram_avx2.cc PROPERTIES COMPILE_OPTIONS "-mavx2;-mpopcnt")
  set_source_files_properties(${CALIB8_CSRC}/product_avx2.cc PROPERTIES COMPILE_OPTIONS "-mavx2")
  # GCC 12 takes the deliberately undefined operands of its own AVX-512 header for mistakes.
  set_source_files_properties(${CALIB8_CSRC}/histogram_avx512.cc PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512vbmi2;-mpopcnt;$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")
endif()

# The engine. A file named after an instruction set is compiled with that set's flags and no others.
file(GLOB_RECURSE CALIB8_ENGINE CONFIGURE_DEPENDS ${CALIB8_CSRC}/engine/*.cc)
list(REMOVE_ITEM CALIB8_ENGINE ${CALIB8_CSRC}/engine/bindings.cc)
set(CALIB8_X86 OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(CALIB8_X86 ON)
endif()
foreach(file IN LISTS CALIB8_ENGINE)
  set(options -fno-math-errno -fno-trapping-math)
  if(file MATCHES "_avx2.cc$")
    list(APPEND options -mavx2 -mfma)
  elseif(file MATCHES "_avxvnni.cc$")
    list(APPEND options -mavx2 -mfma -mavxvnni)
  elseif(file MATCHES "_avx512vnni.cc$")
    list(APPEND options -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
      $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  elseif(file MATCHES "_neondot.cc$")
    list(APPEND options -march=armv8.2-a+dotprod)
  endif()
  if(file MATCHES "_avx" AND NOT CALIB8_X86)
    continue()
  elseif(file MATCHES "_neondot.cc$" AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
    continue()
  endif()
  set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${options}")
  list(APPEND CALIB8_SOURCES ${file})
endforeach()

add_library(calib8_core STATIC ${CALIB8_SOURCES})
set_target_properties(calib8_core PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
target_compile_options(calib8_core PRIVATE ${CALIB8_WARNINGS} -ffp-contract=off)
# What all kernels share lies above their folders; no -I, for there is a limits.h.
target_compile_options(calib8_core PRIVATE -iquote${CALIB8_CSRC}/engine)
target_link_libraries(calib8_core PUBLIC Threads::Threads)
