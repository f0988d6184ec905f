# Flags that every Millrace target shares, and the two ways to make one.
add_library(millrace_flags INTERFACE)
target_compile_options(millrace_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                                                $<$<BOOL:${MILLRACE_WERROR}>:-Werror>)
if(MILLRACE_SANITIZE STREQUAL "address")
  # -fno-sanitize=vptr: oneTBB 2021.8 casts a graph task to its own type behind the destructor (graph_task::finalize).
  # -Wno-maybe-uninitialized: with the sanitizers' own code in between GCC sees unset values inside std::regex.
  target_compile_options(millrace_flags INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr
                                                  -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer -Wno-maybe-uninitialized)
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

# millrace_library(NAME [files...]): the static library of one folder. Without files: every .cc below the folder.
function(millrace_library name)
  set(sources ${ARGN})
  if(NOT sources)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/millrace>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:millrace_flags>)
  set_property(GLOBAL APPEND PROPERTY MILLRACE_LIBRARIES ${name})
endfunction()

# millrace_program(NAME files... LIBRARIES libs...): one executable.
function(millrace_program name)
  cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} millrace_flags)
endfunction()
