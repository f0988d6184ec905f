# `cmake --install`: the libraries, the headers under include/millrace with the tree of the repository, and what
# find_package(Millrace) reads.
include(CMakePackageConfigHelpers)
get_property(millrace_libraries GLOBAL PROPERTY MILLRACE_LIBRARIES)
install(TARGETS ${millrace_libraries} EXPORT MillraceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set(millrace_header_folders formats ops pipeline)
if(MILLRACE_BUILD_TRAINER)
  list(APPEND millrace_header_folders tokenizer trainer)
endif()
foreach(folder ${millrace_header_folders})
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT MillraceTargets NAMESPACE Millrace:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
configure_package_config_file(cmake/MillraceConfig.cmake.in MillraceConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
write_basic_package_version_file(MillraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
