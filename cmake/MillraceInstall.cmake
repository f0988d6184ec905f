# `cmake --install`: the libraries, the public headers under include/millrace, what find_package(Millrace) reads, and the
# programs for data sets.
include(CMakePackageConfigHelpers)
get_property(millrace_libraries GLOBAL PROPERTY MILLRACE_LIBRARIES)
install(TARGETS ${millrace_libraries} EXPORT MillraceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET dataset_index)
  install(TARGETS bucket_leftovers dataset_index dataset_verify RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
include(MillracePublicHeaders)
millrace_with_included(millrace_headers ${MILLRACE_PUBLIC_HEADERS})
foreach(header IN LISTS millrace_headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace/${folder})
endforeach()
install(EXPORT MillraceTargets NAMESPACE Millrace:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
list(TRANSFORM millrace_libraries REPLACE "^millrace_" "" OUTPUT_VARIABLE millrace_components)
configure_package_config_file(cmake/MillraceConfig.cmake.in MillraceConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
write_basic_package_version_file(MillraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
