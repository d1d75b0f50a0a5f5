# GCC of this machine, linked with the C library's symbols as glibc 2.28 has them and with libstdc++ inside: what it
# makes runs on every Linux of manylinux_2_28, whatever this machine has. scripts/wheels sets what it reads.
set(folder $ENV{CALIB8_GLIBC})
set(machine $ENV{CALIB8_MACHINE})
if(NOT machine STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${machine})
endif()
set(CMAKE_CXX_COMPILER $ENV{CXX})
set(CMAKE_C_COMPILER $ENV{CC})
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # a program would need more than the symbols

# No symbol of the libstdc++ inside is seen from outside, where there may be another one.
set(linked "-nodefaultlibs -L${folder}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT ${linked})
set(CMAKE_MODULE_LINKER_FLAGS_INIT ${linked})
string(CONCAT CMAKE_CXX_STANDARD_LIBRARIES_INIT "-Wl,-Bstatic -lstdc++ -Wl,-Bdynamic ${folder}/glibc_2_28.o "
  "-lm -lpthread -lgcc_s -lgcc -lc -ldynamic -l:libc_nonshared.a -Wl,--exclude-libs,ALL")
