# The C library: the object files of the engine and what stands behind include/calib8.h, shared and static.
include(${CMAKE_CURRENT_LIST_DIR}/core.cmake)

file(STRINGS ${CALIB8_CSRC}/../pyproject.toml version REGEX "^version = ")
string(REGEX REPLACE "^version = \"([0-9.]+)\"$" "\\1" CALIB8_VERSION "${version}")
set(CALIB8_HEADER ${CALIB8_CSRC}/../include/calib8.h)
file(GLOB CALIB8_C_SOURCES CONFIGURE_DEPENDS ${CALIB8_CSRC}/c_library/*.cc)
add_library(calib8_c OBJECT ${CALIB8_C_SOURCES})
set_target_properties(calib8_c PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
target_compile_options(calib8_c PRIVATE ${CALIB8_WARNINGS})
target_compile_definitions(calib8_c PRIVATE CALIB8_VERSION="${CALIB8_VERSION}")

add_library(calib8 SHARED $<TARGET_OBJECTS:calib8_c> $<TARGET_OBJECTS:calib8_core>)
add_library(calib8_static STATIC $<TARGET_OBJECTS:calib8_c> $<TARGET_OBJECTS:calib8_core>)
set_target_properties(calib8 PROPERTIES VERSION ${CALIB8_VERSION} SOVERSION 1 LINKER_LANGUAGE CXX)
set_target_properties(calib8_static PROPERTIES OUTPUT_NAME calib8 EXPORT_NAME static LINKER_LANGUAGE CXX)
target_compile_definitions(calib8_static INTERFACE CALIB8_STATIC)
# What a program needs that CMake links as C.
target_link_libraries(calib8_static INTERFACE "$<INSTALL_INTERFACE:$<$<PLATFORM_ID:Linux>:stdc++>>"
  "$<INSTALL_INTERFACE:$<$<PLATFORM_ID:Linux>:m>>" "$<INSTALL_INTERFACE:$<$<PLATFORM_ID:Darwin>:c++>>")
foreach(library calib8 calib8_static)
  target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${CALIB8_CSRC}/../include>)
  target_link_libraries(${library} PRIVATE Threads::Threads)
endforeach()
if(UNIX AND NOT APPLE)
  set(map ${CALIB8_CSRC}/../libcalib8/calib8.map)
  target_link_options(calib8 PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined -Wl,--gc-sections)
  set_target_properties(calib8 PROPERTIES LINK_DEPENDS ${map})
endif()
