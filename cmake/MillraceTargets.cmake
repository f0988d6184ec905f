# Flags that every Millrace target shares, and the two ways to make one.
add_library(millrace_flags INTERFACE)
target_compile_options(millrace_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                                                $<$<BOOL:${MILLRACE_WERROR}>:-Werror>)
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-mprfchw MILLRACE_HAS_PREFETCHW)
if(MILLRACE_HAS_PREFETCHW)
  # Without it __builtin_prefetch(p, 1) asks for a line to read, and the store after it waits once more, for the right to write.
  # An x86-64 processor since 2005 has the instruction or passes over it.
  target_compile_options(millrace_flags INTERFACE -mprfchw)
endif()
if(MILLRACE_SANITIZE STREQUAL "address")
  # -fno-sanitize=vptr: oneTBB 2021.8 casts a graph task to its own type after the destructor (graph_task::finalize).
  # -Wno-maybe-uninitialized: with the sanitizers' own code in between GCC sees unset values inside std::regex.
  target_compile_options(millrace_flags INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr
                                                  -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(millrace_flags INTERFACE -fsanitize=address,undefined)
elseif(MILLRACE_SANITIZE STREQUAL "thread")
  # -Wno-tsan: GCC warns about atomic_thread_fence inside oneTBB's headers.
  target_compile_options(millrace_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan
                                                  -Wno-maybe-uninitialized)
  target_link_options(millrace_flags INTERFACE -fsanitize=thread)
elseif(MILLRACE_SANITIZE STREQUAL "fuzzer")
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "MILLRACE_SANITIZE is 'fuzzer', which needs clang, not ${CMAKE_CXX_COMPILER_ID}")
  endif()
  target_compile_options(millrace_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr
                                                  -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(millrace_flags INTERFACE -fsanitize=address,undefined)
elseif(MILLRACE_SANITIZE)
  message(FATAL_ERROR "MILLRACE_SANITIZE is '${MILLRACE_SANITIZE}'; it takes 'address', 'thread', 'fuzzer' or nothing")
endif()

# What nearly every file includes, compiled once for a target of several files (docs/decisions/precompiled_headers.md). A source
# still includes all that it uses: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DMILLRACE_BATCH=1 builds as well.
set(millrace_precompiled_headers
    <algorithm> <array> <atomic> <chrono> <cmath> <cstddef> <cstdint> <cstring> <deque> <functional> <map> <memory>
    <mutex> <optional> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)

# millrace_precompile(NAME [headers...]): these for the sources of NAME, and further headers. A source with compiler
# options of its own needs the property SKIP_PRECOMPILE_HEADERS.
function(millrace_precompile name)
  get_target_property(sources ${name} SOURCES)
  list(LENGTH sources count)
  if(count GREATER 5 AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_precompile_headers(${name} PRIVATE ${millrace_precompiled_headers} ${ARGN})
    # So that ccache can tell what a precompiled header was made of.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    # GCC 12 sees overflows and overlaps inside std::string that are none, and with a precompiled header it forgets that this is a
    # system header (GCC bugs 105329 and 105651); clang-tidy and the sanitizers look for the real ones.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict>)
  endif()
endfunction()

# millrace_library(NAME [files...] [BATCH options...]): the static library of one folder. Without files: every .cc below the
# folder. BATCH: for millrace_batch.
function(millrace_library name)
  cmake_parse_arguments(arg "" "" "BATCH" ${ARGN})
  set(sources ${arg_UNPARSED_ARGUMENTS})
  if(NOT sources)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${MILLRACE_INCLUDE_FOLDER}>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:millrace_flags>)
  millrace_precompile(${name})
  millrace_batch(${name} ${arg_BATCH})
  set_property(GLOBAL APPEND PROPERTY MILLRACE_LIBRARIES ${name})
endfunction()

# millrace_program(NAME files... LIBRARIES libs...): one executable.
function(millrace_program name)
  cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} millrace_flags)
endfunction()
