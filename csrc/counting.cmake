# What counts values and searches ranges, as a static library: for the extension module and the native checks.
include(${CMAKE_CURRENT_LIST_DIR}/core.cmake)

set(CALIB8_COUNTING
  ${CALIB8_CSRC}/accumulate.cc
  ${CALIB8_CSRC}/dispatch.cc
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
  list(APPEND CALIB8_COUNTING ${CALIB8_CSRC}/histogram_avx2.cc ${CALIB8_CSRC}/histogram_avx512.cc
    ${CALIB8_CSRC}/product_avx2.cc)
  set_source_files_properties(${CALIB8_CSRC}/histogram_avx2.cc PROPERTIES COMPILE_OPTIONS "-mavx2;-mpopcnt")
  set_source_files_properties(${CALIB8_CSRC}/product_avx2.cc PROPERTIES COMPILE_OPTIONS "-mavx2")
  # GCC 12 takes the deliberately undefined operands of its own AVX-512 header for mistakes.
  set_source_files_properties(${CALIB8_CSRC}/histogram_avx512.cc PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512vbmi2;-mpopcnt;$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")
endif()

add_library(calib8_counting STATIC ${CALIB8_COUNTING})
set_target_properties(calib8_counting PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
target_compile_options(calib8_counting PRIVATE ${CALIB8_WARNINGS} ${CALIB8_GCC}-ffp-contract=off)
target_link_libraries(calib8_counting PUBLIC Threads::Threads)
