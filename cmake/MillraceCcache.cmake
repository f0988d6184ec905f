# Compiles through ccache where it is installed, so that another clone, or another branch of this one, finds what was
# compiled before (docs/testing.md).
option(MILLRACE_CCACHE "Compile through ccache where it is installed" ON)
find_program(MILLRACE_CCACHE_PROGRAM ccache)
mark_as_advanced(MILLRACE_CCACHE_PROGRAM)
if(MILLRACE_CCACHE AND MILLRACE_CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  execute_process(COMMAND ${MILLRACE_CCACHE_PROGRAM} -p OUTPUT_VARIABLE millrace_ccache_settings)
  set(millrace_ccache_size)
  if(millrace_ccache_settings MATCHES "\\(default\\) max_size")  # else its user has said how large
    set(millrace_ccache_size CCACHE_MAXSIZE=10G)
  endif()
  # Paths below the source folder count relative to the build folder, and nothing else of where the clone lies: its
  # name is in no preprocessed source (NOHASHDIR: debug information then names the folder that compiled first).
  # pch_defines and time_macros are what ccache asks for where precompiled headers are used; no source uses __TIME__.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${millrace_ccache_size} ${MILLRACE_CCACHE_PROGRAM})
endif()
